"""All commands, by each of their names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from trailgate.logdump import (
    counting_commands,
    file_commands,
    filter_commands,
    moving_commands,
    other_commands,
    session_commands,
    view_commands,
)
from trailgate.logdump.session import Command

ROWS: Final[tuple[Command, ...]] = (
    *file_commands.ROWS,
    *moving_commands.ROWS,
    *view_commands.ROWS,
    *filter_commands.ROWS,
    *counting_commands.ROWS,
    *session_commands.ROWS,
    *other_commands.ROWS,
)
COMMANDS: Final[Mapping[str, Command]] = MappingProxyType(
    {name: command for command in ROWS for name in command.names}
)
