"""All commands, by each of their names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from trailgate.logdump.commands import counting, files, filtering, moving, other, session, views
from trailgate.logdump.session.session import Command

ROWS: Final[tuple[Command, ...]] = (
    *files.ROWS,
    *moving.ROWS,
    *views.ROWS,
    *filtering.ROWS,
    *counting.ROWS,
    *session.ROWS,
    *other.ROWS,
)
COMMANDS: Final[Mapping[str, Command]] = MappingProxyType(
    {name: command for command in ROWS for name in command.names}
)
