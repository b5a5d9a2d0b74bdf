"""Find columns of an Iceberg table whose names others have exchanged, by the IDs of the columns.

Apply finds columns by their names, and Iceberg by IDs, which stay when a column is renamed. If two
columns exchange their names, each one would get the values of the other::

    the checkpoint     the table now
    v is column 2      v is column 3
    w is column 3      w is column 2

A column that was dropped and added again has a new ID, but its old one belongs to no other column.
So it is not refused. Nor is a table that was created anew, which has another UUID.
"""

from __future__ import annotations

import json

from pyiceberg.table import Table

from trailgate.apply.effects.tables import TargetTable
from trailgate.errors import DefinitionError, Where
from trailgate.model.positions import short_position


def encode_field_ids(loaded: Table) -> str:
    """Encode the IDs of an Iceberg table's columns as a JSON object, for the checkpoint."""
    return json.dumps({"uuid": str(loaded.metadata.table_uuid), "columns": _list_ids(loaded)})


def check_field_ids(table: TargetTable, loaded: Table, stored: str | None, position: str) -> None:
    """Raise DefinitionError if a column of an Iceberg table has the name that another applied column had.

    ``stored`` is the result of ``encode_field_ids`` when the table was written last, up to
    ``position``, or None if it is unknown.
    """
    if stored is None:
        return
    before, now = json.loads(stored), _list_ids(loaded)
    if before["uuid"] != str(loaded.metadata.table_uuid):
        return
    asked = {one.name.casefold() for one in table.columns if not one.extra}
    names = {number: name for name, number in now.items()}
    for name, number in before["columns"].items():
        other = names.get(number, name)
        if other != name and {name, other} <= asked and name in now:
            problem = f"somebody has renamed columns since the table was last written: the column that was {name} is {other} now"
            hint = f"Rename them back; or, if the values fit the new names, exclude the table from this group, and apply it with another one: --group NAME --after {short_position(position)}"
            raise DefinitionError(problem, where=Where(table=str(table), field=name), hint=hint)


def _list_ids(loaded: Table) -> dict[str, int]:
    """Return the IDs of an Iceberg table's columns by their names in lower case."""
    return {one.name.casefold(): one.field_id for one in loaded.schema().fields}
