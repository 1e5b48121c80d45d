"""How much a history may hold on disk."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Upper bounds of the log; the oldest segments leave first, whole.

    They hold for what is sealed: each process that writes may have one open segment of ``segment_bytes`` more.

    Args:
        namespace_tokens: of one namespace.
        namespace_bytes: of one namespace, on disk.
        total_tokens: of all namespaces.
        total_bytes: of all namespaces, on disk.
        segment_bytes: size at which a segment is sealed; at most an eighth of every bound in bytes.
        seal_seconds: age at which a segment is sealed, so that other processes see it.
    """

    namespace_tokens: int = 100_000_000
    namespace_bytes: int = 1 << 30
    total_tokens: int = 400_000_000
    total_bytes: int = 4 << 30
    segment_bytes: int = 8 << 20
    seal_seconds: float = 30.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value <= 0:
                raise ValueError(f"expected {field.name} above 0, got {value}")

    @property
    def longest_segment(self) -> int:
        """Bytes at which a segment is sealed: small beside the budgets, so that little leaves at a time."""
        return max(1, min(self.segment_bytes, self.namespace_bytes // 8, self.total_bytes // 8))

    @property
    def longest_segment_tokens(self) -> int:
        """Tokens at which a segment is sealed."""
        return max(1, min(self.namespace_tokens, self.total_tokens) // 8)
