"""Find the rows of changes that an Iceberg table cannot hold, before any table of the batch is written.

Two things can refuse a row: a required column, and the partitions. A partition's value is made
from a column by a transform, such as ``year`` or ``truncate[10]``. pyiceberg computes it while it
writes a file, and fails if the value does not fit::

    transform      the column's type   a value that fails
    identity       double              all (a NaN would be an error, and a -0.0 be written twice)
    truncate[10]   decimal(9,2)        -9999999.99, since -10000000.00 has ten digits
    identity       string              300 times x: the folder's name would be too long
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionField
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform, TruncateTransform
from pyiceberg.types import DecimalType, DoubleType, FloatType

from trailgate.apply.effects.nets import NetChanges
from trailgate.apply.targets.lake_rows import PARTITIONS, UnfitRows, get_written_column
from trailgate.apply.targets.target import RowRefusedError
from trailgate.arrays import Mask
from trailgate.errors import ApplyError, Where

FLOATS: Final = "pyiceberg cannot write partitions of {}, the type of column {}"
TOO_LOW: Final = "the value is too low for the partitions by {} of column {}: rounded down, it has more digits than the column's type"
EXACT: Final = Context(prec=80)


def find_unfit_rows(table: Table, nets: NetChanges) -> UnfitRows:
    """Return the rows of changes that an Iceberg table refuses by a required column or a partition.

    Raises ApplyError if pyiceberg cannot write the table's partitions.
    """
    unfit = UnfitRows(nets)
    index_of = {column.name: at for at, column in enumerate(nets.table.columns)}
    names = {field.field_id: field.name for field in table.schema().fields}
    for field in table.schema().fields:
        if field.required:
            unfit.add_nulls(index_of[field.name])
    for part in table.spec().fields:
        # A part of a struct: the trail has no values for it.
        if part.source_id in names and len(nets):
            _add_partitions(unfit, table, part, nets, index_of[names[part.source_id]])
    return unfit


def _add_partitions(
    unfit: UnfitRows, table: Table, part: PartitionField, nets: NetChanges, at: int
) -> None:
    """Add the rows whose value in the column at an index has no partition that pyiceberg can write."""
    kind, name = table.schema().find_type(part.source_id), nets.table.columns[at].name
    where, transform = Where(field=name), part.transform
    if isinstance(transform, IdentityTransform) and isinstance(kind, FloatType | DoubleType):
        raise ApplyError(FLOATS.format(kind, name), where=where, hint=PARTITIONS)
    values, written = get_written_column(nets, at)
    if isinstance(transform, TruncateTransform):
        if isinstance(kind, DecimalType):
            is_low = _mask_too_low(values, kind, transform.width)
            error = RowRefusedError(TOO_LOW.format(transform, name), where=where, hint=PARTITIONS)
            unfit.add(np.flatnonzero(is_low & written), error)
        if pa.types.is_string(values.type):
            values = pc.utf8_slice_codeunits(values, 0, transform.width)
    # In a store the name of a file has no such limit.
    if table.location().startswith(("/", "file:")):
        unfit.add_long_partitions(at, part.name, values)


def _mask_too_low(values: pa.Array, kind: DecimalType, width: int) -> Mask:
    """Return a mask of the decimals that, rounded down to a multiple of ``width`` units, have more digits than their type."""
    # decimal(9,2) ends at -999999999 units. With width 10, the last multiple is -999999990.
    units = -((10**kind.precision - 1) // width * width)
    least = pa.scalar(Decimal(units).scaleb(-kind.scale, EXACT), values.type)
    return np.asarray(pc.fill_null(pc.less(values, least), False))
