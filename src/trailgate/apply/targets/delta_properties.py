"""Plan the properties of Delta tables that delta-rs writes: columns without statistics, and columns without a dictionary.

A Delta log states the smallest and greatest value of each column in a file, and readers skip files
by these bounds. delta-rs writes bounds of decimals as JSON numbers: 64-bit integers, or floats if
the decimal has a scale. If the greatest value in a file is 90071992547409.93, the bound becomes
90071992547409.92, and a reader that looks for 90071992547409.93 skips the file. So table properties
disable the statistics that delta-rs rounds.

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

import re
from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import ColumnProperties, DeltaTable, WriterProperties

from trailgate.apply.targets.delta_places import DeltaPlace

FLOAT_DIGITS: Final = 15  # a 64-bit float keeps every number of so many digits
LONG_DIGITS: Final = 18  # a 64-bit integer holds every number of so many digits
STATISTICS: Final = "delta.dataSkippingStatsColumns"
INDEXED: Final = "delta.dataSkippingNumIndexedCols"
SIMPLE: Final = re.compile(r"\w+")  # names that all libraries parse alike in a list of columns
# A column with a useful dictionary needs less: an index of at most 20 bits for each row, and a
# dictionary of at most 1 MiB.
MOST_BYTES: Final = 6.0
WIDTHS: Final = {"INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}
NEEDED: Final = ("path", "num_records")  # of what the log states about a file
FEWEST_ROWS: Final = 10_000  # the dictionary of fewer rows costs nothing
COMPRESSION: Final = "SNAPPY"  # delta-rs's own choice, which must be repeated
# The types for which Delta writes statistics.
COUNTED: Final = (
    pa.types.is_integer,
    pa.types.is_decimal,
    pa.types.is_floating,
    pa.types.is_temporal,
    pa.types.is_string,
)
COMPUTED: Final = ("delta.generationExpression", "delta.identity.")


def has_rounded_statistics(data_type: pa.DataType) -> bool:
    """Return whether delta-rs rounds the statistics of columns of this type in a Delta log.

    It does so for decimals of more than 18 digits, or of more than 15 digits if they have a scale.
    """
    if not pa.types.is_decimal(data_type):
        return False
    return bool(data_type.precision > (FLOAT_DIGITS if data_type.scale else LONG_DIGITS))


def plan_statistics_properties(
    schema: pa.Schema, known: Mapping[str, str | None]
) -> dict[str, str]:
    """Return the Delta table properties that turn off rounded statistics, or {} if no change is needed.

    ``known`` are the table's current properties. All columns are considered and not only the key,
    because every reader of the table trusts its statistics.
    """
    rounded = [field.name for field in schema if has_rounded_statistics(field.type)]
    listed = known.get(STATISTICS)
    if not rounded:
        return {}
    # The table names its columns with statistics: remove the rounded ones from that list.
    if listed is not None:
        names = [name.strip().strip("`") for name in listed.split(",")]
        chosen = [name for name in names if name not in rounded]
        return {} if chosen == names else {STATISTICS: ",".join(map("`{}`".format, chosen))}
    # Otherwise the first 32 columns have statistics, or as many as the property states (-1: all). If a
    # rounded column is among them, replace the number by a list of the others.
    count = int(known.get(INDEXED) or 32)
    first = schema.names[: count if count >= 0 else None]
    if not set(first) & set(rounded):
        return {}
    chosen = [
        field.name
        for field in schema
        if field.name in first
        and SIMPLE.fullmatch(field.name)
        and any(fits(field.type) for fits in COUNTED)
        and not has_rounded_statistics(field.type)
    ]
    return {STATISTICS: ",".join(map("`{}`".format, chosen))}


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
    """Find the columns of a Delta table's Parquet file that need more bytes than a useful dictionary, and return their names."""
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


def find_computed_columns(table: DeltaTable) -> frozenset[str]:
    """Return the names of the columns that rows of a Delta table are written without, because Delta computes their values: generated and identity columns."""
    return frozenset(
        field.name
        for field in table.schema().fields
        if any(name.startswith(COMPUTED) for name in field.metadata)
    )
