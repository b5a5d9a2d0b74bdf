"""Headers of the trail files that a run writes: build one, and patch it in a file on a local disk.

A growing file's header is patched when the file is begun, finished, or reopened. A file size in the
header means that the file will not grow any more (trail format §4.1). Patches are pairs of an
offset and the bytes to write there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from trailgate.storage.files.addresses import is_stored
from trailgate.storage.files.durable import convert_write_errors
from trailgate.storage.files.manifest import GrowingFileState
from trailgate.trail.format.file_header import (
    FileHeader,
    MachineInfo,
    ProducerInfo,
    TrailInfo,
    decode_header,
)
from trailgate.trail.format.tokens import FILE_HEADER
from trailgate.trail.writing.file_headers import encode_header_patches

# The length of a header is u16 (trail format §2).
LONGEST: Final = 1 << 16  # the maximum bytes of a header
Patches = list[tuple[int, bytes]]
PRODUCER: Final = "TRAILGATE"
HOLDS_TRAILS: Final = "dirdat"  # GoldenGate's folder for trails, below its home folder


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
    # Trails from before release 10 have no header and begin with a record (trail format §4.6).
    return decode_header(data)[0] if data and data[0] == FILE_HEADER else None


def build_file_header(prefix: str, digits: int, now: int, process: str = "") -> FileHeader:
    """Build the file header of the trail files that a run writes, without the fields that publishing fills in.

    ``process`` is the name of an Extract group, by default TRAILGATE. ``now`` is in microseconds.
    """
    # The five fields of uname have the order of group 31 (trail format §4.2).
    machine = MachineInfo(*os.uname())
    # File number 0 stands for the final one, which ``patches_to_begin`` writes.
    name = f"{prefix}{0:0{digits}}"
    trail = TrailInfo(creation_time=now, uri=_uri(machine.nodename, prefix), filename=name)
    return FileHeader(trail, machine, producer=ProducerInfo(name=process or PRODUCER))


def _uri(host: str, prefix: str) -> str:
    """Return a trail's URI as in GoldenGate's headers: ``uri:vm4:juliandyke:com::home:oracle:goldengate``.

    It consists of the host and GoldenGate's home folder (trail format §4.1): the folder above
    ``dirdat``, or else the trail's own folder.
    """
    path = "/" + prefix.partition("://")[2] if is_stored(prefix) else prefix
    folder = Path(path).absolute().parent
    home = folder.parent if folder.name == HOLDS_TRAILS else folder
    return ":".join(["uri", *host.split("."), "", *home.parts[1:]])
