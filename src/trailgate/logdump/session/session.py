"""A session: the open file, the position in it, the settings. One command line in, results out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from trailgate.errors import OptionError, StorageError, TrailgateError
from trailgate.logdump.filters.filters import Filters
from trailgate.logdump.records.open_trail import OpenTrail
from trailgate.logdump.records.portions import Portion
from trailgate.logdump.session.results import Failure, Result, ShownRecord
from trailgate.logdump.terms.settings import Settings
from trailgate.logdump.terms.words import Words, split_commands, split_words
from trailgate.storage.files.addresses import URI
from trailgate.trail.format.metadata import MetadataKind
from trailgate.trail.format.record import TrailRecord
from trailgate.trail.format.record_types import IO_METADATA

DEEPEST: Final = 8  # files of commands that call each other
HINT: Final = "HELP lists the commands"


class Command(NamedTuple):
    """One command: its names, its syntax, what it does, its function, words that may follow."""

    names: tuple[str, ...]
    syntax: str
    help: str
    run: Callable[[Session, Words], Iterator[Result]]
    words: tuple[str, ...] = ()


class Session:
    """The state of a session. ``now`` is the clock, ``commands`` are found by each of their names."""

    def __init__(self, commands: Mapping[str, Command], now: Callable[[], datetime]) -> None:
        self.commands = commands
        self.now = now
        self.settings = Settings()
        self.filters = Filters()
        self.history: list[str] = []
        self.folder = ""
        self.place = 0  # where the next command begins to read
        self.current: int | None = None  # RBA of the record shown last
        self.log: TextIO | None = None
        self.depth = 0
        self._trail: OpenTrail | None = None

    @property
    def trail(self) -> OpenTrail:
        """Return the open file; raises OptionError where there is none."""
        if self._trail is None:
            raise OptionError("no trail file is open", hint="OPEN dirdat/ot000000000 opens one")
        return self._trail

    @property
    def is_open(self) -> bool:
        """Return whether a file is open."""
        return self._trail is not None

    def run(self, line: str) -> Iterator[Result]:
        """Yield the results of a command line; a failure is the last of them."""
        try:
            for text in split_commands(line):
                self.history.append(text)
                yield from self.command(text)
        except TrailgateError as error:
            yield Failure(error)
        except OSError as error:
            yield Failure(StorageError(str(error)))

    def command(self, text: str) -> Iterator[Result]:
        """Yield the results of one command, which does not become history."""
        found, rest = self.find(text)
        return found.run(self, split_words(rest))

    def find(self, text: str) -> tuple[Command, str]:
        """Return the command that a text begins with, and the rest; raises OptionError."""
        name, _, rest = text.strip().partition(" ")
        if name[:1] == "!" and len(name) > 1:
            name, rest = "!", f"{name[1:]} {rest}"
        command = self.commands.get(name.upper())
        if command is None:
            begins = {
                key: row for key, row in self.commands.items() if key.startswith(name.upper())
            }
            rows = {row.names: row for row in begins.values()}
            if len(rows) != 1 or not name:
                more = f": {', '.join(sorted(begins))}" if begins else ""
                problem = f"{name[:40]!r} is more than one command{more}" if begins else ""
                raise OptionError(problem or f"{name[:40]!r} is not a command", hint=HINT)
            command = next(iter(rows.values()))
        return command, rest.strip()

    def open(self, path: str) -> OpenTrail:
        """Close the open file, open another one, and go to its start."""
        try:
            trail = OpenTrail(self.path(path))
        except StorageError as error:
            error.hint = error.hint or "OPEN takes one file with its number, as dirdat/ot000000000"
            raise
        self.close()
        self._trail, self.place, self.current = trail, 0, None
        return trail

    def close(self) -> None:
        """Close the open file, if any."""
        if self._trail is not None:
            self._trail.close()
        self._trail, self.place, self.current = None, 0, None

    def path(self, name: str) -> str:
        """Return a path as typed, seen from the session's folder."""
        if (
            URI.match(name)
            or name.startswith(("/", "file:"))
            or not (self.folder or name[:1] == "~")
        ):
            return name
        if name.startswith("~"):
            return str(Path(name).expanduser())
        return f"{self.folder.rstrip('/')}/{name}"

    def set(self, **values: Any) -> None:
        """Change settings."""
        self.settings = replace(self.settings, **values)

    def shown(self, portion: Portion, row: int) -> ShownRecord:
        """Return a record to be shown, and move the position to it."""
        record = self.trail.record(portion, row)
        forward = self.settings.forward
        self.current = record.offset
        self.place = record.offset + record.length if forward else record.offset
        return self.named(record)

    def named(self, record: TrailRecord) -> ShownRecord:
        """Return a record with the names that its indexes mean."""
        index = record.table_index
        metadata = record.io_type == IO_METADATA
        if index is None and not metadata:
            return ShownRecord(record, record.name or "", self.settings)
        tables = self.trail.tables(record.offset + record.length)
        table = tables.tables.get(-1 if index is None else index)
        if metadata and record.node in (MetadataKind.TABLE, MetadataKind.TABLE_REFERENCE):
            own = (one for one in tables.tables.values() if one.offset == record.offset)
            return ShownRecord(record, record.name or "", self.settings, table=next(own, None))
        key = (index or 0, -1 if record.partition_index is None else record.partition_index)
        name = (record.name or "") if table is None else table.name
        return ShownRecord(record, name, self.settings, tables.partitions.get(key))
