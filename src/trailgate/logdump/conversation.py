"""A conversation with a session: command lines in, printed lines out, and both into its log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime

from trailgate.logdump.commands.table import COMMANDS
from trailgate.logdump.printing.result_json import json_values
from trailgate.logdump.printing.result_text import text_lines
from trailgate.logdump.session.results import Edit, Failure, Goodbye, Result
from trailgate.logdump.session.session import Session


class Conversation:
    """A session and its answers, as text or as JSON.

    ``over`` is set by EXIT, ``failed`` by an error; ``edit`` is the command to offer for editing.
    """

    def __init__(self, now: Callable[[], datetime], *, as_values: bool = False) -> None:
        self.session = Session(COMMANDS, now)
        self.over = False
        self.failed = False
        self.edit = ""
        self._json = as_values

    @property
    def prompt(self) -> str:
        """Return the prompt of the next command."""
        return f"Logdump {len(self.session.history) + 1} >"

    def answer(self, line: str) -> Iterator[str]:
        """Yield the lines that answer a command line."""
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
        """Close the open file and the log."""
        self.session.close()
        if self.session.log is not None:
            self.session.log.close()
            self.session.log = None

    def _take_note(self, result: Result) -> None:
        self.over |= isinstance(result, Goodbye)
        self.failed |= isinstance(result, Failure)
        if isinstance(result, Edit):
            self.edit = result.line

    def _write_log(self, text: str) -> None:
        if self.session.log is not None:
            self.session.log.write(f"{text}\n")
            self.session.log.flush()
