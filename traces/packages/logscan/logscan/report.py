"""Text reports."""

from .stats import count_by, durations, per_minute, percentile


def summary(records):
    """Counts and durations as text."""
    records = list(records)
    lines = [f"records: {len(records)}"]
    for title, attribute in (("levels", "level"), ("loggers", "logger")):
        lines.append(f"{title}:")
        for name, count in count_by(records, attribute):
            lines.append(f"  {name:<12} {count:>5}")
    values = durations(records)
    if values:
        figures = "  ".join(f"p{p} {percentile(values, p):.1f}" for p in (50, 90, 99))
        lines.append(f"requests: {len(values)}  {figures} ms")
    return "\n".join(lines)


def timeline(records, width=40):
    """Records per minute as a bar chart."""
    rows = per_minute(records)
    if not rows:
        return "no records"
    top = max(count for _, count in rows)
    lines = []
    for minute, count in rows:
        bar = "#" * round(width * count / top)
        lines.append(f"{minute:%Y-%m-%d %H:%M} {count:>5} {bar}".rstrip())
    return "\n".join(lines)
