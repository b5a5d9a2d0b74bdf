"""Trail time stamps: microseconds since Julian Date 0.0, UTC (trail format §6)."""

from __future__ import annotations

from typing import Final

# trail format §6: unix_microseconds = value - 210866760000000000 (JD 2440587.5 * 86400 * 10^6)
JULIAN_EPOCH: Final = 210_866_760_000_000_000


def julian_from_unix(microseconds: int) -> int:
    """Return Julian microseconds for microseconds since 1970 UTC."""
    return microseconds + JULIAN_EPOCH


def unix_from_julian(microseconds: int) -> int:
    """Return microseconds since 1970 UTC for Julian microseconds."""
    return microseconds - JULIAN_EPOCH
