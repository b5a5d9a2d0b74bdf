"""Columns to a file of records, by a copybook."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

import pyarrow as pa
from pyarrow import fs

from trailgate.cobol.records.encoding import RecordEncoder, framed
from trailgate.cobol.records.record_kinds import layout_named
from trailgate.errors import EncodeError, OptionError, StorageError, Where
from trailgate.jobs.record_files.keywords import RecordKeywords
from trailgate.jobs.record_files.options import OPTIONS, CopybookOptions
from trailgate.options import listed
from trailgate.storage.files.addresses import Address, locate
from trailgate.storage.files.compressed_file import codec_of

_UNFINISHED = ".unfinished"


@listed(RecordKeywords, OPTIONS)
def write_records(
    batches: Iterable[pa.RecordBatch],
    path: Address,
    copybook: Address | None = None,
    **options: Unpack[RecordKeywords],
) -> int:
    """Write flat columns as a new file of records, and return how many.

    ``options`` are those of ``read_records``, which reads the file with them again; ``kinds`` and records to skip cannot be
    written. Raises EncodeError with record and field for a value that does not fit; there is no file then.
    """
    chosen = CopybookOptions.of({"copybook": copybook, **options})
    if chosen.kinds is not None or chosen.framing.skip_first or chosen.framing.skip_last:
        raise OptionError("kinds, skipFirst and skipLast are for reading")
    encoder = RecordEncoder(layout_named(chosen.layouts, chosen.record), chosen.records)
    if codec_of(str(path)) is not None:
        raise OptionError(f"compressed files are not written: {path}", hint="Leave out the suffix")
    store, place = locate(path)
    if store.get_file_info(place).type != fs.FileType.NotFound:
        raise StorageError("the file is there already", where=Where(source=str(path)))
    count = 0
    try:
        with store.open_output_stream(place + _UNFINISHED) as file:
            for batch in batches:
                file.write(_encoded(encoder, batch, chosen, count))
                count += batch.num_rows
    except BaseException:
        store.delete_file(place + _UNFINISHED)
        raise
    store.move(place + _UNFINISHED, place)
    return count


def _encoded(
    encoder: RecordEncoder, batch: pa.RecordBatch, options: CopybookOptions, before: int
) -> bytes:
    """Return the bytes of a batch; an error has the number of its record in the file."""
    try:
        return framed(encoder.encode(batch), options.framing).tobytes()
    except EncodeError as error:
        record = error.where.record
        where = Where(record=None if record is None else before + record, field=error.where.field)
        raise EncodeError(error.problem, where=where, hint=error.hint) from None
