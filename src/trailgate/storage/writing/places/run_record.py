"""The record of a run beside its staged files: a run that takes the place of one that was interrupted keeps its time."""

from __future__ import annotations

import json
from typing import Final

RUN_RECORD: Final = "run.json"


def encode_run(fingerprint: str, now: int) -> bytes:
    """Return the record of a run that began at a time, in nanoseconds."""
    return json.dumps({"fingerprint": fingerprint, "now": now}).encode()


def time_of_run(record: bytes, fingerprint: str, now: int) -> int:
    """Return the time of a run's record if it is of that fingerprint, else ``now``; any bytes may be in it."""
    try:
        earlier = json.loads(record)
        return int(earlier["now"]) if earlier["fingerprint"] == fingerprint else now
    except (ValueError, LookupError, TypeError, RecursionError, OverflowError):
        return now
