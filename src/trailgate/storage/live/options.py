"""How a live trail is written."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from trailgate.errors import OptionError
from trailgate.storage.writing.options import WriteOptions
from trailgate.storage.writing.target import PRODUCER

APPEND_LEVEL: Final = 1  # append recovery needs release 10 (trail format §4.6)


class Recovery(Enum):
    """What a start does with what follows the last commit (docs/recovery.md).

    The numbers are the header's; 1 is printed. Assumed: 1 is append mode, and overwrite mode is 0.
    """

    OVERWRITE = 0
    APPEND = 1


@dataclass(frozen=True, slots=True)
class AppendOptions(WriteOptions):
    """How a live trail is written. ``recovery`` None: append mode, but overwrite mode at level 0.

    ``new_file`` begins a file at each start; ``group`` is the writer's name in headers and restart records.
    """

    recovery: Recovery | None = None
    new_file: bool = False
    group: str = PRODUCER

    def __post_init__(self) -> None:
        WriteOptions.__post_init__(self)  # super() does not work in classes with slots
        if not self._appends and self.recovery is Recovery.APPEND:
            problem = f"a trail of level {self.trail_format.level} has overwrite recovery only"
            raise OptionError(problem)

    @property
    def mode(self) -> Recovery:
        """Return the recovery mode that counts."""
        return self.recovery or (Recovery.APPEND if self._appends else Recovery.OVERWRITE)

    @property
    def _appends(self) -> bool:
        return self.trail_format.level >= APPEND_LEVEL
