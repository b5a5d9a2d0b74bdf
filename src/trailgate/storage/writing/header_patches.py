"""Patches of the header of a trail file on a local disk, when the file is begun, finished, or reopened.

A file size in the header means that the file will not grow any more (trail format §4.1). Patches
are pairs of an offset and the bytes to write there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from trailgate.storage.files.durable import convert_write_errors
from trailgate.storage.files.manifest import GrowingFileState
from trailgate.trail.format.file_header import FileHeader, TrailInfo, decode_header
from trailgate.trail.format.tokens import FILE_HEADER
from trailgate.trail.writing.file_headers import encode_header_patches

LONGEST: Final = 1 << 16  # the maximum bytes of a header
Patches = list[tuple[int, bytes]]


def patches_to_finish(path: Path, size: int, growing: GrowingFileState) -> Patches:
    """Return the patches that mark a growing trail file as finished.

    There are none if it has no header.
    """

    def finish(trail: TrailInfo) -> TrailInfo:
        return replace(
            trail, file_size=size, last_csn=growing.last_csn, last_io_time=growing.last_time
        )

    return _patches(path, finish)


def patches_to_reopen(path: Path) -> Patches:
    """Return the patches that mark a finished trail file as growing again.

    There are none if it is not finished or has no header.
    """
    header = _header(path)
    if header is None or header.trail.file_size is None:
        return []
    trail = replace(header.trail, file_size=None, last_csn=None, last_io_time=None)
    return encode_header_patches(replace(header, trail=trail))


def patches_to_begin(
    path: Path, name: str, number: int, first: tuple[str | None, int | None]
) -> Patches:
    """Return the patches that write a staged file's final name and number into its header.

    ``first`` is its first CSN and time.
    """

    def start(trail: TrailInfo) -> TrailInfo:
        return replace(
            trail, filename=name, seqno=number, first_csn=first[0], first_io_time=first[1]
        )

    return _patches(path, start)


def _patches(path: Path, change: Callable[[TrailInfo], TrailInfo]) -> Patches:
    header = _header(path)
    if header is None:
        return []
    return encode_header_patches(replace(header, trail=change(header.trail)))


def _header(path: Path) -> FileHeader | None:
    with convert_write_errors(path), path.open("rb") as file:
        data = file.read(LONGEST)
    return decode_header(data)[0] if data and data[0] == FILE_HEADER else None
