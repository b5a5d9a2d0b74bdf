"""Choose the columns of a Delta table for which a MERGE writes no dictionary.

Parquet stores a column as a dictionary of its distinct values and an index per row, or as plain
values. delta-rs tries a dictionary for every column, and starts over with plain values once the
dictionary has 1 MiB. For columns with many distinct values that is half of a MERGE's time, and the
files do not get smaller (decision 0156). Which columns these are can be read from the footer of an
existing file::

    column   rows       bytes       bytes per row
    status   1,000,000     250,000   0.25           a dictionary is worth it
    comment  1,000,000  13,100,000  13.1            no dictionary
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import ColumnProperties, DeltaTable, WriterProperties

from trailgate.apply.targets.delta_places import DeltaPlace

# A column with a useful dictionary needs less: an index of at most 20 bits for each row, and a
# dictionary of at most 1 MiB.
MOST_BYTES: Final = 6.0
WIDTHS: Final = {"INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}
FEWEST_ROWS: Final = 10_000  # the dictionary of fewer rows costs nothing
NEEDED: Final = ("path", "num_records")  # of what the log states about a file
COMPRESSION: Final = "SNAPPY"  # delta-rs's own choice, which must be repeated


def plan_writer_properties(place: DeltaPlace, table: DeltaTable) -> WriterProperties | None:
    """Plan delta-rs's properties for new files of a table, from the footer of its largest file.

    Returns None if the table has no file, or if the largest file has few rows or cannot be opened.
    """
    files = pa.table(table.get_add_actions(flatten=True))
    if not len(files):
        return None
    at = int(np.argmax(files["size_bytes"].to_numpy()))
    # Without the other columns: Python may lack their least and greatest dates.
    needed = [name for name in NEEDED if name in files.column_names]
    largest = files.select(needed).slice(at, 1).to_pylist()[0]
    rows = largest.get("num_records")  # unknown for a file without statistics
    if rows is not None and rows < FEWEST_ROWS:
        return None
    try:
        with place.open_folder().open_input_file(largest["path"]) as file:
            metadata = pq.ParquetFile(file).metadata
    except OSError:  # such as the file of a shallow clone, which is in another folder
        return None
    if metadata.num_rows < FEWEST_ROWS:
        return None
    plain = ColumnProperties(dictionary_enabled=False)
    columns = dict.fromkeys(find_plain_columns(metadata), plain)
    return WriterProperties(compression=COMPRESSION, column_properties=columns or None)


def find_plain_columns(metadata: pq.FileMetaData) -> list[str]:
    """Return the names of the columns in a Parquet file that need more bytes than a useful dictionary."""
    names = []
    for at in range(metadata.num_columns):
        chunks = [metadata.row_group(row).column(at) for row in range(metadata.num_row_groups)]
        size = sum(chunk.total_uncompressed_size for chunk in chunks)
        values = sum(chunk.num_values for chunk in chunks)
        most = min(MOST_BYTES, 0.9 * WIDTHS.get(chunks[0].physical_type, MOST_BYTES * 2))
        # The parts of lists and structs have a path with dots.
        if size > most * values and "." not in chunks[0].path_in_schema:
            names.append(chunks[0].path_in_schema)
    return names
