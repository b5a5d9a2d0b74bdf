"""What is counted: tallies of records, and large transactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of some records: of all, of one table, or of an interval of time."""

    name: str
    records: int
    data_bytes: int
    types: Mapping[str, int]
    befores: int
    afters: int
    begin: int | None = None  # of an interval, microseconds since 1970 UTC
    end: int | None = None


@dataclass(frozen=True, slots=True)
class LargeTransaction:
    """A transaction above the limits of TRANSRECLIMIT and TRANSBYTELIMIT."""

    offset: int
    time: int
    records: int
    data_bytes: int
