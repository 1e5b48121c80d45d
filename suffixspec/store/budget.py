"""How much a history may hold on disk."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

Eviction = Literal["oldest", "least-useful"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Upper bounds of the log; segments leave whole, the oldest first unless said otherwise.

    They hold for what is sealed: each process that writes may have one open segment of ``segment_bytes`` more.

    Args:
        namespace_tokens: of one namespace.
        namespace_bytes: of one namespace, on disk.
        total_tokens: of all namespaces.
        total_bytes: of all namespaces, on disk.
        segment_bytes: size at which a segment is sealed; at most an eighth of every bound in bytes.
        eviction: ``"oldest"``, or ``"least-useful"``: the segment leaves first of which the smallest share was
            accepted in drafts lately; of equal ones, the oldest. The newest quarter has had no time to be useful,
            and stays. Counting costs some 10 µs a step.
        seal_seconds: age at which a segment is sealed, so that other processes see it.
    """

    namespace_tokens: int = 100_000_000
    namespace_bytes: int = 1 << 30
    total_tokens: int = 400_000_000
    total_bytes: int = 4 << 30
    segment_bytes: int = 8 << 20
    seal_seconds: float = 30.0
    eviction: Eviction = "oldest"

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "eviction":
                if value not in get_args(Eviction):
                    raise ValueError(f"expected eviction {' or '.join(get_args(Eviction))}, got {value!r}")
            elif value <= 0:
                raise ValueError(f"expected {field.name} above 0, got {value}")

    @property
    def longest_segment(self) -> int:
        """Bytes at which a segment is sealed: small beside the budgets, so that little leaves at a time."""
        return max(1, min(self.segment_bytes, self.namespace_bytes // 8, self.total_bytes // 8))

    @property
    def longest_segment_tokens(self) -> int:
        """Tokens at which a segment is sealed."""
        return max(1, min(self.namespace_tokens, self.total_tokens) // 8)
