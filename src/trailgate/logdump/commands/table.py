"""The table of all commands, under each of their names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from trailgate.logdump.commands import counting, files, filtering, positions, session, settings
from trailgate.logdump.session import LogdumpCommand

ROWS: Final[tuple[LogdumpCommand, ...]] = (
    *files.FILE_COMMANDS,
    *files.SAVING_COMMANDS,
    *positions.MOVING_COMMANDS,
    *positions.SCANNING_COMMANDS,
    *settings.ROWS,
    *filtering.ROWS,
    *counting.ROWS,
    *session.SESSION_COMMANDS,
    *session.CONVERSION_COMMANDS,
    *session.UNSUPPORTED_COMMANDS,
)
COMMANDS: Final[Mapping[str, LogdumpCommand]] = MappingProxyType(
    {name: command for command in ROWS for name in command.names}
)
