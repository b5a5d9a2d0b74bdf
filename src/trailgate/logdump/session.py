"""The state of a Logdump session, and how it finds and runs commands.

A command is a row: names, help, and a function that takes the session and yields results
(``results.py``). The module has no commands of its own: ``Conversation`` passes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from trailgate.errors import OptionError, StorageError, TrailgateError, did_you_mean
from trailgate.logdump.filters import RecordFilters
from trailgate.logdump.open_trail import OpenTrail
from trailgate.logdump.results import FailureResult, LogdumpSettings, Result
from trailgate.logdump.syntax import CommandArguments, read_arguments, split_commands
from trailgate.storage.files.addresses import URI
from trailgate.storage.files.trail_files import find_files_at

# In the arguments that the help prints, words in capitals are keywords: RECORDS in n RECORDS.
KEYWORD: Final = re.compile(r"[A-Z]{2,}")
DEEPEST: Final = 8  # the deepest nesting of command files that OBEY each other
HINT: Final = "HELP lists the commands"


class LogdumpCommand(NamedTuple):
    """A Logdump command: its names, the syntax of its arguments, its help, and its function."""

    names: tuple[str, ...]
    arguments: str
    help: str
    run: Callable[[LogdumpSession, CommandArguments], Iterator[Result]]
    options: tuple[str, ...] = ()

    @property
    def syntax(self) -> str:
        """The syntax of the Logdump command as HELP shows it."""
        return f"{self.names[0]} {self.arguments}".rstrip()

    @property
    def keywords(self) -> tuple[str, ...]:
        """The words that may follow the Logdump command: its options, or the capitalised words of its syntax."""
        return self.options or tuple(dict.fromkeys(KEYWORD.findall(self.arguments)))


class LogdumpSession:
    """The state of a Logdump session.

    ``commands`` has each command under all of its names; ``now`` is the clock. ``folder`` is the
    folder at which typed paths start. ``depth`` is the number of nested commands that run others,
    such as OBEY. ``log`` is the file to which the session is logged, or None.
    """

    def __init__(self, commands: Mapping[str, LogdumpCommand], now: Callable[[], datetime]) -> None:
        self.commands = commands
        self.now = now
        self.settings = LogdumpSettings()
        self.filters = RecordFilters()
        self.history: list[str] = []
        self.folder = ""
        self.position = 0  # the RBA at which the next command starts to read
        self.current: int | None = None  # the RBA of the record shown last
        self.log: TextIO | None = None
        self.depth = 0
        self._trail: OpenTrail | None = None

    @property
    def trail(self) -> OpenTrail:
        """The open trail file. Raises OptionError if none is open."""
        if self._trail is None:
            raise OptionError("no trail file is open", hint="OPEN dirdat/ot000000000 opens one")
        return self._trail

    @property
    def is_open(self) -> bool:
        """Whether the session has a trail file open."""
        return self._trail is not None

    @property
    def start(self) -> int:
        """The RBA at which the session's next record begins.

        If the session is at the file header, this is the first record.
        """
        return self.position or self.trail.header_length

    def run(self, line: str) -> Iterator[Result]:
        """Run a Logdump command line and yield its results.

        An error ends the command line. It becomes the last result, a `FailureResult`.
        """
        try:
            for text in split_commands(line):
                # Added before the command runs, so that HISTORY lists itself and FC can repeat a
                # failed command.
                self.history.append(text)
                yield from self.command(text)
        except TrailgateError as error:
            yield FailureResult(error)
        except OSError as error:
            yield FailureResult(StorageError(str(error)))

    def command(self, text: str) -> Iterator[Result]:
        """Run one Logdump command, without adding it to the history."""
        known, rest = self.find(text)
        return known.run(self, read_arguments(rest))

    def find(self, text: str) -> tuple[LogdumpCommand, str]:
        """Find the Logdump command at the start of a text, also by an abbreviation of its name.

        Returns the command and the text after its name. Raises OptionError.
        """
        name, _, rest = text.strip().partition(" ")
        name, comma, more = name.partition(",")  # a comma may follow the name: COUNT, DETAIL
        if comma:
            rest = f"{more} {rest}"
        rest = rest.strip().removeprefix(",")
        # "!5" repeats command 5
        if name[:1] == "!" and len(name) > 1:
            name, rest = "!", f"{name[1:]} {rest}"
        command = self.commands.get(name.upper()) or self._expand_abbreviation(name)
        return command, rest.strip()

    def _expand_abbreviation(self, name: str) -> LogdumpCommand:
        matches = [key for key in self.commands if name and key.startswith(name.upper())]
        # several matching names of one command are not ambiguous
        rows = {self.commands[key].names: self.commands[key] for key in matches}
        if len(rows) == 1:
            return next(iter(rows.values()))
        if rows:
            names = ", ".join(sorted(matches))
            raise OptionError(f"{name[:40]!r} is more than one command: {names}", hint=HINT)
        near = did_you_mean(name[:40], self.commands)
        hint = f"{near} {HINT}" if near else HINT
        raise OptionError(f"{name[:40]!r} is not a command", hint=hint)

    def open(self, path: str) -> OpenTrail:
        """Open a trail file at its beginning, and close the session's file that was open."""
        try:
            trail = OpenTrail(find_files_at(self.path(path))[0].path)
        except StorageError as error:
            error.hint = (
                error.hint or "OPEN takes one file with its number, such as dirdat/ot000000000"
            )
            raise
        self.close()
        self._trail = trail
        return trail

    def close(self) -> None:
        """Close the session's open trail file, if any."""
        if self._trail is not None:
            self._trail.close()
        self._trail, self.position, self.current = None, 0, None

    def path(self, name: str) -> str:
        """Resolve a path typed in a Logdump command. Relative paths start at the session's folder."""
        if URI.match(name) or name.startswith(("/", "file:")):
            return name
        if name.startswith("~"):
            return str(Path(name).expanduser())
        return f"{self.folder.rstrip('/')}/{name}" if self.folder else name

    def set(self, **values: Any) -> None:
        """Change settings of the Logdump session, by the names of ``LogdumpSettings``."""
        self.settings = replace(self.settings, **values)
