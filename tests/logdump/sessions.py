"""A session over bytes, for tests."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from trailgate.logdump.conversation import COMMANDS
from trailgate.logdump.results import Result, ShownRecord
from trailgate.logdump.session import LogdumpSession

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def session_in(folder: Path) -> LogdumpSession:
    """Return a session whose paths are relative to a folder."""
    session = LogdumpSession(COMMANDS, lambda: NOW)
    session.folder = str(folder)
    return session


def opened(folder: Path, raw: bytes, name: str = "ot000000000") -> LogdumpSession:
    """Return a session with these bytes as the open file."""
    (folder / name).write_bytes(raw)
    session = session_in(folder)
    answers(session, f"OPEN {name}")
    return session


def answers(session: LogdumpSession, *lines: str) -> list[Result]:
    """Return the results of some command lines."""
    return [result for line in lines for result in session.run(line)]


def offsets(results: list[Result]) -> list[int]:
    """Return the RBAs of the records among some results."""
    return [result.record.offset for result in results if isinstance(result, ShownRecord)]
