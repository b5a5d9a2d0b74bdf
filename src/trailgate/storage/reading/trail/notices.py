"""What readers report beside the rows that they return: by the log, which is stderr unless a program handles it."""

from __future__ import annotations

import logging
from typing import Final

from trailgate.errors import masked
from trailgate.storage.reading.trail.trail_file import TrailFileReader
from trailgate.trail.format.file_header import FileHeader
from trailgate.trail.writing.trail_format import RELEASES

LOG: Final = logging.getLogger(__name__)
HIGHEST_LEVEL: Final = max(release.level for release in RELEASES.values())
UNDEFINED: Final = (
    "%s: nothing defines %s%s: columns are numbered and numbers unscaled; the definitions file of its tables helps "
    "(--definitions FILE, or PREFIX.def)"
)
HELD: Final = (
    "%s, byte %d: the last operation of an open transaction is left out, since more of it may follow "
    "(--open-transactions show gives it)"
)
UNFINISHED: Final = "%s, byte %d: the file ends inside a record, which is left out: it is still being written, or the file was cut"
CUT: Final = "%s: the header states %d bytes, and the file has %d: its end is missing (trailgate check lists what is whole)"
UNBEGUN: Final = "%s: the file ends at byte %d, inside its header: it is still being written, or the file was cut"
UNPAIRED: Final = "%s, byte %d: the last update is left out: its after image is not written yet"
NEWER: Final = "%s: the trail is of level %d, and levels up to %d are known: what is new in it may be read wrongly"
UNDATABLE: Final = "%s: commit times outside of the years 1 to 9999 are null"
NAMED: Final = 3  # tables in a notice


class Notices:
    """Logs each kind of notice once, however many readers of a trail share it."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def once(self, text: str, *values: object) -> None:
        """Log a text with its values, unless it was logged before."""
        if text not in self._given:
            self._given.add(text)
            LOG.warning(text, *(masked(v) if isinstance(v, str) else v for v in values))

    def of_header(self, reader: TrailFileReader) -> None:
        """Log where a file is of a level that is not known, or shorter than its header states."""
        file, header = reader.file, reader.header
        if header is None:
            return
        if is_newer(header):
            self.once(NEWER, file.path, header.trail.compatibility, HIGHEST_LEVEL)
        stated = header.trail.file_size
        # The header may have been written after the file was listed: then it states what the file has by now.
        if stated is not None and stated > file.size and stated > (size := reader.size_now()):
            self.once(CUT, file.path, stated, size)

    def of_undefined(self, path: str, names: list[str]) -> None:
        """Log where nothing defines tables."""
        if names:
            more = f" and {len(names) - NAMED} more tables" if len(names) > NAMED else ""
            self.once(UNDEFINED, path, ", ".join(names[:NAMED]), more)


def is_newer(header: FileHeader) -> bool:
    """Return whether a file is of a level that is not known."""
    return header.trail.compatibility > HIGHEST_LEVEL
