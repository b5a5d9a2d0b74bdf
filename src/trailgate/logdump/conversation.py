"""Connect a session to a terminal: read command lines, print results, and write both to the session's log.

Also lists the words that may follow a typed command (keywords, table names, record types), for
completion.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

from trailgate.errors import TrailgateError
from trailgate.logdump.commands import counting, files, filtering, positions, session, settings
from trailgate.logdump.filter_options import OPTIONS as FILTER_OPTIONS
from trailgate.logdump.result_output import json_values, text_lines
from trailgate.logdump.results import EditResult, FailureResult, Result, SessionEnd
from trailgate.logdump.session import LogdumpCommand, LogdumpSession
from trailgate.trail.format.record_types import ROWS as TYPE_ROWS

TYPES: Final = tuple(row.name for row in TYPE_ROWS)

# A table name may follow the argument of these commands.
NAMED: Final = frozenset(("SCANFORTIME", "SCANFORRBA", "SCANFORMETADATA"))
_OF_TYPES: Final = frozenset(
    name for row in FILTER_OPTIONS if row.arguments.startswith("type") for name in row.names
)
_OF_TABLES: Final = frozenset(
    name for row in FILTER_OPTIONS if row.arguments.startswith("name, ") for name in row.names
)

ALL_COMMANDS: Final[tuple[LogdumpCommand, ...]] = (
    *files.FILE_COMMANDS,
    *files.SAVING_COMMANDS,
    *positions.MOVING_COMMANDS,
    *positions.SCANNING_COMMANDS,
    *settings.SETTING_COMMANDS,
    *filtering.FILTER_COMMANDS,
    *counting.COUNT_COMMANDS,
    *session.SESSION_COMMANDS,
    *session.CONVERSION_COMMANDS,
    *session.UNSUPPORTED_COMMANDS,
)
COMMANDS: Final[Mapping[str, LogdumpCommand]] = MappingProxyType(
    {name: command for command in ALL_COMMANDS for name in command.names}
)


class Conversation:
    """A Logdump session at a terminal, whose answers are printed as text or JSON.

    EXIT sets ``over``, an error sets ``failed``, and ``edit`` is the command to offer for editing.
    """

    def __init__(self, now: Callable[[], datetime], *, as_values: bool = False) -> None:
        self.session = LogdumpSession(COMMANDS, now)
        self.over = False
        self.failed = False
        self.edit = ""
        self._json = as_values

    @property
    def prompt(self) -> str:
        """The prompt for the next command."""
        return f"Logdump {len(self.session.history) + 1} >"

    def answer(self, line: str) -> Iterator[str]:
        """Run a command line, and yield the lines of its result."""
        self.edit = ""
        self._write_log(f"{self.prompt}{line}")
        for result in self.session.run(line):
            self._take_note(result)
            text = list(text_lines(result))
            for one in text:
                self._write_log(one)
            if self._json:
                yield json.dumps({"command": line, **json_values(result)}, ensure_ascii=False)
            else:
                yield from text

    def close(self) -> None:
        """Close the open trail file and the log of the session."""
        self.session.close()
        if self.session.log is not None:
            self.session.log.close()
            self.session.log = None

    def _take_note(self, result: Result) -> None:
        self.over |= isinstance(result, SessionEnd)
        self.failed |= isinstance(result, FailureResult)
        if isinstance(result, EditResult):
            self.edit = result.line

    def _write_log(self, text: str) -> None:
        if self.session.log is not None:
            self.session.log.write(f"{text}\n")
            self.session.log.flush()


def offered_words(session: LogdumpSession, command: LogdumpCommand, rest: str) -> Iterator[str]:
    """Yield the words that may follow a command. ``rest`` is the text typed after its name.

    The last, unfinished word is ignored; the caller compares it with the results.
    """
    name = command.names[0]
    earlier = rest.upper().replace(",", " , ").split()
    if rest and not rest[-1].isspace():
        earlier = earlier[:-1]
    if name == "HELP":
        yield from session.commands
    if name == "SCANFORTYPE":
        yield from table_names(session) if "," in earlier else TYPES
    elif name in NAMED and earlier:
        yield from table_names(session)
    elif name == "COUNT" and earlier[-1:] == ["FILE"]:
        yield from table_names(session)
        return
    elif name == "FILTER":
        option = next((word for word in reversed(earlier) if word in _OF_TYPES | _OF_TABLES), "")
        if option:
            yield from TYPES if option in _OF_TYPES else table_names(session)
            return
    yield from command.keywords


def table_names(session: LogdumpSession) -> list[str]:
    """Return the table names of the open file: those in its first metadata, and in its first records."""
    if not session.is_open:
        return []
    trail = session.trail
    names: set[str] = set()
    try:
        names |= {table.name for table in trail.tables(trail.header_length).tables.values()}
        for chunk in trail.forward(trail.header_length):
            names |= {chunk.names.strings[code] for code in chunk.names.present_codes}
            break
    except (TrailgateError, OSError):
        pass  # a command that reads the records reports the damage
    return sorted(name for name in names if name)
