"""SAVE: records into a new trail file that other programs can read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from pyarrow import fs

from trailgate.arrays import Longs, Mask
from trailgate.errors import OptionError, StorageError, Where
from trailgate.logdump.filters.options import INDICATORS
from trailgate.logdump.records.open_trail import OpenTrail
from trailgate.logdump.records.portions import Portion
from trailgate.logdump.session.file_header import with_size
from trailgate.logdump.session.reading import begin_of
from trailgate.logdump.session.session import Session
from trailgate.logdump.statistics.counting import IO_COMMENT
from trailgate.logdump.terms.words import Words, one_of, read_number
from trailgate.storage.files.trail_files import locate
from trailgate.trail.format.record import TrailRecord, encode_record
from trailgate.trail.format.record_layout import RECORD_HEADS
from trailgate.trail.format.record_types import IO_METADATA

UNITS: Final = ("RECORDS", "RECORD", "RECS", "BYTES", "BYTE")
NONSTOP: Final = "extents are those of NonStop files"
OLD: Final = "the format from before release 6 is not public"
REFUSED: Final = {"EXT": NONSTOP, "MEGABYTES": NONSTOP, "OLDFORMAT": OLD}


@dataclass(frozen=True, slots=True)
class SaveOptions:
    """What SAVE was asked for; None for no limit, or for indicators as they are."""

    path: str
    replace: bool = False
    records: int | None = None
    data_bytes: int | None = None
    comments: bool = False
    indicator: int | None = None


class Saved(NamedTuple):
    """What was written."""

    path: str
    records: int
    size: int


def read_options(words: Words, *, comments: bool) -> SaveOptions:
    """Return what was typed behind SAVE; raises OptionError."""
    plain = words.plain
    if not plain:
        raise OptionError("SAVE needs a file")
    values: dict[str, Any] = {"path": plain[0].removesuffix("!"), "comments": comments}
    values["replace"] = plain[0].endswith("!") and plain[0] != "!"
    rest = iter(plain[1:])
    for word in rest:
        asked = word.upper()
        if asked in ("!", "TRUNCATE"):
            values["replace"] = True
        elif asked in ("COMMENT", "NOCOMMENT"):
            values["comments"] = asked == "COMMENT"
        elif asked == "TRANSIND":
            named = next(rest, "")
            values["indicator"] = (
                read_number(named, 0, 3) if named.isdigit() else one_of(named, INDICATORS)
            )
        elif word[:1].isdigit():
            unit = next(rest, "RECORDS").upper()
            if unit not in UNITS:
                raise OptionError(f"{unit[:40]!r} is neither RECORDS nor BYTES")
            values["records" if unit.startswith("R") else "data_bytes"] = read_number(word)
        elif asked != "NEWFORMAT":
            reason = next((why for name, why in REFUSED.items() if asked.startswith(name)), "")
            raise OptionError(reason or f"{word[:40]!r} is no option of SAVE")
    return SaveOptions(**values)


def save(session: Session, options: SaveOptions, path: str) -> Saved:
    """Write the records from where the session stands, and stand behind them."""
    store, place = locate(path)
    exists = store.get_file_info(place).type != fs.FileType.NotFound
    if exists and store.get_file_info(place).type != fs.FileType.File:
        raise StorageError("this is not a file", where=Where(source=path))
    if exists and _same(store, place, session.trail.path):
        raise OptionError("a file cannot be saved into itself")
    if exists and not options.replace:
        problem = "the file exists already"
        raise StorageError(problem, where=Where(source=path), hint="SAVE file ! replaces it")
    part = f"{place}.part"
    try:
        with store.open_output_stream(part) as stream:
            records, size = _write(session, options, stream)
        _finish(store, part, session.trail, size)
        store.move(part, place)
    except OSError as error:
        raise StorageError(f"cannot save: {error}", where=Where(source=path)) from error
    finally:
        if store.get_file_info(part).type == fs.FileType.File:
            store.delete_file(part)
    return Saved(path, records, size)


def _same(store: fs.FileSystem, place: str, other: str) -> bool:
    other_store, other_place = locate(other)
    same = (store.normalize_path(place), other_store.normalize_path(other_place))
    return bool(store == other_store) and same[0].lstrip("./") == same[1].lstrip("./")


def _write(session: Session, options: SaveOptions, stream: Any) -> tuple[int, int]:
    """Write header, metadata, comments and records; return how many and the file's size."""
    trail = session.trail
    start = begin_of(session)
    size = stream.write(trail.read(0, trail.header_length).tobytes())
    # Without the metadata records in front no table index behind them would mean anything.
    for raw in trail.metadata_records(start):
        size += stream.write(raw)
    if options.comments:
        size += stream.write(_comment(trail, f"Saved from {trail.path}, RBA {start}"))
    records = data = 0
    for portion in trail.forward(start):
        mask = session.filters.mask(portion) | (portion.view.io_type == IO_METADATA)
        rows = _limited(portion, np.flatnonzero(mask), options, (records, data))
        size += stream.write(_bytes_of(portion, rows, options.indicator))
        records += len(rows)
        data += int(portion.view.data_length[rows].sum())
        session.place = portion.end
        if _enough(options, records, data):
            last = int(rows[-1]) if len(rows) else 0
            behind = portion.view.offsets[last] + portion.view.lengths[last] if len(rows) else 0
            session.place = portion.source.base + int(behind)
            break
    if options.comments:
        size += stream.write(_comment(trail, f"End of what was saved, {records} records"))
    return records, size


def _limited(portion: Portion, rows: Longs, options: SaveOptions, done: tuple[int, int]) -> Longs:
    if options.records is not None:
        rows = rows[: options.records - done[0]]
    if options.data_bytes is not None:
        before = (
            done[1] + np.cumsum(portion.view.data_length[rows]) - portion.view.data_length[rows]
        )
        rows = rows[before < options.data_bytes]
    return rows


def _enough(options: SaveOptions, records: int, data: int) -> bool:
    by_records = options.records is not None and records >= options.records
    return by_records or (options.data_bytes is not None and data >= options.data_bytes)


def _bytes_of(portion: Portion, rows: Longs, indicator: int | None) -> bytes:
    data = portion.source.data
    if indicator is not None:
        data = data.copy()
        at = RECORD_HEADS[portion.source.order].fields["trans_ind"][1]  # type: ignore[index]
        changed = rows[portion.view.io_type[rows] != IO_METADATA]
        data[portion.view.offsets[changed] + at] = indicator
    keep: Mask = np.zeros(len(portion), bool)
    keep[rows] = True
    edges = np.flatnonzero(np.diff(np.concatenate(([False], keep, [False]))))
    starts, lasts = edges[::2], edges[1::2] - 1
    ends = portion.view.offsets[lasts] + portion.view.lengths[lasts]
    spans = zip(portion.view.offsets[starts].tolist(), ends.tolist(), strict=True)
    return b"".join(data[start:end].tobytes() for start, end in spans)


def _comment(trail: OpenTrail, text: str) -> bytes:
    # Assumed: the text as data; how Logdump lays out its comment records is not public.
    record = TrailRecord(IO_COMMENT, data=text.encode(), node=0, order=trail.order)
    return encode_record(record)


def _finish(store: fs.FileSystem, part: str, trail: OpenTrail, size: int) -> None:
    """Write the header anew with the size, where the store can: others are read without it."""
    if not trail.header_length or not isinstance(store, fs.LocalFileSystem):
        return
    header = with_size(trail.read(0, trail.header_length).tobytes(), size)
    with open(part, "r+b") as file:  # noqa: PTH123  a path of the store
        file.write(header)
