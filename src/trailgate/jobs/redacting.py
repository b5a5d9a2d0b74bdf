"""A trail without its data: every record with other values, for a question or a report about it."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

from trailgate.definitions.defgen import write_sourcedefs
from trailgate.errors import DecodeError, StorageError, Where
from trailgate.model.tables import Definitions
from trailgate.options import check_arguments
from trailgate.storage.files.addresses import Address, name_of
from trailgate.storage.files.durable import write_whole, writing
from trailgate.storage.files.listing import TrailFile, number_digits
from trailgate.storage.files.trail_files import find_trail
from trailgate.storage.reading.trail_file import TrailFileReader
from trailgate.trail.annotation.elements import Damage, Element, content
from trailgate.trail.annotation.file_header import header_order
from trailgate.trail.annotation.redaction import NotUnderstoodError, Redaction, kind_of
from trailgate.trail.annotation.walk import analyze
from trailgate.trail.format.tokens import FILE_HEADER, UNSET

SIZE_FIELD: Final = "file_size"


@dataclass(frozen=True, slots=True)
class RedactSummary:
    """What was written: files, records, how many were left out by type and reason, and how many unknown tokens became zeros."""

    target: str
    files: tuple[str, ...]
    records: int
    left_out: dict[str, int]
    zeros: dict[str, int]


@check_arguments
def redact_trail(
    trail: Address,
    to: str | Path,
    *,
    names: bool = False,
    key: str | None = None,
    records: int | None = None,
    definitions: Address | None = None,
) -> RedactSummary:
    """Write a trail's files anew with other values, so that they can be shown to somebody; return what was done.

    Lengths, types, tokens and structure stay. A value becomes the same one wherever it occurs; with the same ``key``, in other trails too. ``names`` replaces the names of
    tables and columns as well. At most ``records`` records of each file are written. What is not understood is left out or becomes zeros,
    and is counted. ``to`` is a prefix on a local disk. Raises StorageError, also where a file is there already.
    """
    found = find_trail(trail, definitions)
    redaction = Redaction(
        secrets.token_bytes() if key is None else key.encode("utf-8", "surrogatepass"), names=names
    )
    left_out: Counter[str] = Counter()
    written, count = [], 0
    for file in found.files:
        target = Path(f"{to}{name_of(file.path)[-number_digits(file.path) :]}")
        if target.exists():
            raise StorageError("the file is there already", where=Where(source=str(target)))
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            staged = target.with_name(f".{target.name}.redact")
            count += _redact_file(file, staged, redaction, left_out, records)
            staged.replace(target)
        written.append(str(target))
    if len(found.definitions):
        own = Path(f"{to}.def")
        with writing(own):
            write_whole(own, write_sourcedefs(_rename(found.definitions, redaction)))
    return RedactSummary(str(to), tuple(written), count, dict(left_out), dict(redaction.zeros))


def _redact_file(
    file: TrailFile,
    staged: Path,
    redaction: Redaction,
    left_out: Counter[str],
    records: int | None,
) -> int:
    """Write the objects of a file with other values, and return how many records these are."""
    taken, header = 0, None
    with TrailFileReader(file) as reader, staged.open("wb") as out:
        for found in analyze(reader.read, file.size):
            if taken == records:
                break
            if isinstance(found, Damage):
                left_out[f"damage: {found.problem}"] += 1
                continue
            try:
                raw = redaction.redact(found)
            except NotUnderstoodError as error:
                if found.path == (FILE_HEADER,):
                    problem = f"the file header is not understood: {error}"
                    raise DecodeError(problem, where=Where(source=file.path)) from None
                left_out[f"{kind_of(found)}: {error}"] += 1
                continue
            out.write(raw)
            if found.path == (FILE_HEADER,):
                header = found
            else:
                taken += 1
        if header is not None:
            _state_size(header, out)
    return taken


def _state_size(header: Element, out: BinaryIO) -> None:
    """Write the size of a file into its header, where that states one."""
    size = out.tell()
    order = header_order(content(header))
    for field in _fields(header):
        if field.name == SIZE_FIELD and field.frame[1] != UNSET and order is not None:
            out.seek(field.offset + len(field.frame))
            out.write(order.raw(size, field.length))


def _fields(found: Element) -> Iterator[Element]:
    """Yield an element and all elements in it."""
    yield found
    for part in found.parts:
        if isinstance(part, Element):
            yield from _fields(part)


def _rename(definitions: Definitions, redaction: Redaction) -> Definitions:
    """Return definitions with the names that tables and columns have now."""
    tables = (
        replace(
            table,
            name=redaction.name(table.name),
            columns=tuple(
                replace(column, name=redaction.name(column.name)) for column in table.columns
            ),
        )
        for table in definitions
    )
    return Definitions(tuple(tables), definitions.database)
