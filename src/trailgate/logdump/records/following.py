"""The file after a file: a trail's files differ in their numbers."""

from __future__ import annotations

from pyarrow import fs

from trailgate.storage.files.addresses import is_stored, locate, name_of
from trailgate.storage.files.listing import NUMBERED


def next_path(path: str) -> str | None:
    """Return the path of a trail's next file; None where the name has no number."""
    matched = NUMBERED.fullmatch(name_of(path))
    if matched is None:
        return None
    digits = matched["number"]
    head, mark, parameters = path.partition("?") if is_stored(path) else (path, "", "")
    return f"{head[: -len(digits)]}{int(digits) + 1:0{len(digits)}}{mark}{parameters}"


def exists(path: str) -> bool:
    """Return whether there is such a file."""
    store, place = locate(path)
    return bool(store.get_file_info(place).type == fs.FileType.File)
