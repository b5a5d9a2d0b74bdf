"""Connect a Logdump session to a terminal: read command lines, print results, and write both to the session's log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

from trailgate.logdump.commands import (
    counting,
    files,
    filtering,
    positions,
    saving,
    session,
    settings,
)
from trailgate.logdump.result_output import json_values, text_lines
from trailgate.logdump.results import EditResult, FailureResult, Result, SessionEnd
from trailgate.logdump.session import LogdumpCommand, LogdumpSession

ALL_COMMANDS: Final[tuple[LogdumpCommand, ...]] = (
    *files.FILE_COMMANDS,
    *session.SCRIPT_COMMANDS,
    *saving.SAVING_COMMANDS,
    *positions.MOVING_COMMANDS,
    *positions.SCANNING_COMMANDS,
    *settings.SETTING_COMMANDS,
    *filtering.FILTER_COMMANDS,
    *counting.COUNT_COMMANDS,
    *settings.SHOW_COMMANDS,
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
        """The prompt for the next command, such as ``Logdump 3 >``."""
        return f"Logdump {len(self.session.history) + 1} >"

    def answer(self, line: str) -> Iterator[str]:
        """Run a command line in the Logdump session, and yield the lines of its result."""
        self.edit = ""
        self._write_log(f"{self.prompt}{line}")
        for result in self.session.run(line):
            self._take_note(result)
            # The log has the text even if the answer is JSON.
            text = list(text_lines(result))
            for one in text:
                self._write_log(one)
            if self._json:
                yield json.dumps({"command": line, **json_values(result)}, ensure_ascii=False)
            else:
                yield from text

    def close(self) -> None:
        """Close the Logdump session's trail file and its log."""
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
