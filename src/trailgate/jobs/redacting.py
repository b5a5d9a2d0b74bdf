"""Write a copy of a trail without its data, for a question or a bug report: all values are replaced."""

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
from trailgate.storage.files.durable import convert_write_errors, replace_whole_file
from trailgate.storage.files.trail_files import TrailFile, find_trail
from trailgate.storage.files.trail_names import number_digits
from trailgate.storage.reading.trail_file import TrailFileReader
from trailgate.storage.reading.trail_file_checks import describe_wrong_size
from trailgate.trail.annotation.elements import DamagedSpan, ExplainedToken, bytes_of_part
from trailgate.trail.annotation.redaction import Redactor, UnredactableRecordError, record_type_name
from trailgate.trail.annotation.trail_file import explain_trail
from trailgate.trail.format.file_header import detect_header_order
from trailgate.trail.format.tokens import FILE_HEADER, UNSET

SIZE_FIELD: Final = "file_size"


@dataclass(frozen=True, slots=True)
class RedactSummary:
    """The result of redacting a trail: the new files, and the number of records in them.

    ``left_out`` counts the skipped records by type and reason, and ``zeros`` the tokens of unknown
    layout that were overwritten with zeros, by name. ``notices`` name files that are missing,
    empty, or differ in size from the size in their header.
    """

    target: str
    files: tuple[str, ...]
    records: int
    left_out: dict[str, int]
    zeros: dict[str, int]
    notices: tuple[str, ...] = ()


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
    """Write a copy of a trail with replaced values, so that it can be shown to others, and return a summary.

    Lengths, types, tokens and structure stay the same. Equal values get equal replacements, and
    with the same ``key`` also in other trails. ``names`` replaces the names of tables and columns
    as well. At most ``records`` records of each file are written. Parts with an unknown meaning are
    skipped or replaced by zeros, and counted. ``to`` is the new trail's prefix on a local disk.
    Raises StorageError, for example if a file of the new trail exists already, and DecodeError if a
    file header cannot be redacted.
    """
    source = find_trail(trail, definitions)
    redaction = Redactor(
        secrets.token_bytes() if key is None else key.encode("utf-8", "surrogatepass"), names=names
    )
    left_out: Counter[str] = Counter()
    missing = source.describe_missing()
    notices = [missing] if missing else []
    written, count = [], 0
    for file in source.files:
        target = Path(f"{to}{name_of(file.path)[-number_digits(file.path) :]}")
        if target.exists():
            hint = "Name another prefix, or remove the file"
            raise StorageError(
                "the file exists already", where=Where(source=str(target)), hint=hint
            )
        with convert_write_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            staged = target.with_name(f".{target.name}.redact")
            count += _redact_file(file, staged, redaction, left_out, records, notices)
            staged.replace(target)
        written.append(str(target))
    if len(source.definitions):
        definitions_file = Path(f"{to}.def")
        with convert_write_errors(definitions_file):
            replace_whole_file(
                definitions_file, write_sourcedefs(_rename(source.definitions, redaction))
            )
    return RedactSummary(
        str(to),
        tuple(written),
        count,
        dict(left_out),
        dict(redaction.zeros),
        notices=tuple(notices),
    )


def _redact_file(
    file: TrailFile,
    staged: Path,
    redaction: Redactor,
    left_out: Counter[str],
    records: int | None,
    notices: list[str],
) -> int:
    """Write at most ``records`` records of a trail file, with replaced values, to ``staged``.

    Returns the number of records written. Counts skipped records by type and reason in
    ``left_out``, and adds notices about a wrong size of the file to ``notices``.
    """
    taken, header = 0, None
    with TrailFileReader(file) as reader, staged.open("wb") as out:
        notices += describe_wrong_size(reader)
        for part in explain_trail(reader.read, file.size):
            if taken == records:
                break
            if isinstance(part, DamagedSpan):
                left_out[f"damage: {part.problem}"] += 1
                continue
            try:
                raw = redaction.redact(part)
            except UnredactableRecordError as error:
                if part.path == (FILE_HEADER,):
                    problem = f"the file header is not understood: {error}"
                    raise DecodeError(problem, where=Where(source=file.path)) from None
                left_out[f"{record_type_name(part)}: {error}"] += 1
                continue
            out.write(raw)
            if part.path == (FILE_HEADER,):
                header = part
            else:
                taken += 1
        if header is not None:
            _state_size(header, out)
    return taken


def _state_size(header: ExplainedToken, out: BinaryIO) -> None:
    """Write the size of a redacted trail file into its header, if the header has such a field."""
    size = out.tell()
    order = detect_header_order(bytes_of_part(header))
    for field in _fields(header):
        # The size is unknown until all records are written, so it is written into its place afterwards.
        if field.name == SIZE_FIELD and field.frame[1] != UNSET and order is not None:
            out.seek(field.offset + len(field.frame))
            out.write(order.raw(size, field.length))


def _fields(element: ExplainedToken) -> Iterator[ExplainedToken]:
    """Yield an element of a file header, and all elements inside it."""
    yield element
    for part in element.parts:
        if isinstance(part, ExplainedToken):
            yield from _fields(part)


def _rename(definitions: Definitions, redaction: Redactor) -> Definitions:
    """Return table definitions in which the names of tables and columns are replaced."""
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
