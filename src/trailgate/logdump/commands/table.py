"""The table of all commands, by each of their names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from trailgate.logdump.commands import (
    conversions,
    counting,
    files,
    filtering,
    moving,
    saving,
    scanning,
    session,
    settings,
    unsupported,
)
from trailgate.logdump.session.session import Command

ROWS: Final[tuple[Command, ...]] = (
    *files.ROWS,
    *saving.ROWS,
    *moving.ROWS,
    *scanning.ROWS,
    *settings.ROWS,
    *filtering.ROWS,
    *counting.ROWS,
    *session.ROWS,
    *conversions.ROWS,
    *unsupported.ROWS,
)
COMMANDS: Final[Mapping[str, Command]] = MappingProxyType(
    {name: command for command in ROWS for name in command.names}
)
