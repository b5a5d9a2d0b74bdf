"""Values by family, and the operations table there and back."""

from __future__ import annotations

import pyarrow as pa
import pytest

from trailgate.errors import DecodeError, DefinitionError
from trailgate.model.changes import OPERATIONS_SCHEMA
from trailgate.model.operations_table import from_operations, to_operations
from trailgate.model.shapes import to_typed, typed_schema
from trailgate.model.tables import Column, Definitions, Table
from trailgate.model.types import TYPES, TypeFamily
from trailgate.model.values import CODECS, parser_for, typed_for

WIDE = Table(
    "A.B",
    (
        Column("ID", 134, 11),
        Column("AMT", 134, 9, scale=2),
        Column("N", 64, 5),
        Column("D", 192, 19),
        Column("DD", 192, 10),
        Column("X", 64, 50, sub_type=2),
    ),
)
NARROW = Table("A.C", (Column("ID", 135, 11),))
ALL = Definitions((WIDE, NARROW))


def row(
    table: str, op_type: str, before: dict[str, str | None], after: dict[str, str | None]
) -> dict[str, object]:
    return {
        "table": table,
        "op_type": op_type,
        "op_ts": 0,
        "tx_id": "t",
        "tx_ind": "W",
        "csn": "1",
        "position": "p",
        "before": list(before.items()),
        "after": list(after.items()),
    }


def operations(*rows: dict[str, object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=OPERATIONS_SCHEMA)


FULL = {
    "ID": "1",
    "AMT": "-0.05",
    "N": None,
    "D": "2020-01-01 00:00:00",
    "DD": "2020-02-02",
    "X": "1.0",
}


def test_every_family_has_a_codec() -> None:
    assert set(CODECS) == set(TypeFamily)


def test_operations_go_there_and_back_in_order() -> None:
    batch = operations(
        row("A.B", "I", {}, FULL),
        row("A.C", "U", {}, {"ID": "18446744073709551615"}),
        row("A.B", "D", {"ID": "2"}, {}),
    )

    assert to_operations(from_operations(batch, ALL)).equals(batch)
    assert to_operations(from_operations(batch.slice(0, 0), ALL)).num_rows == 0


def test_the_typed_shape_takes_deletes_from_the_before_image() -> None:
    batch = from_operations(
        operations(
            row("A.B", "I", {}, FULL), row("A.C", "I", {}, {}), row("A.B", "D", {"ID": "2"}, {})
        ),
        ALL,
    )

    typed = to_typed(batch, WIDE)

    assert typed.schema == typed_schema(WIDE)
    assert typed.column("ID").to_pylist() == [1, 2]
    assert typed.column("_missing").to_pylist() == [[], ["AMT", "N", "D", "DD", "X"]]
    assert [typed_for(column)[0] for column in WIDE.columns] == [
        pa.int64(), pa.decimal128(19, 2), pa.string(), pa.timestamp("us"), pa.date32(), pa.string(),
    ]  # fmt: skip


def test_a_bad_value_names_its_row_table_and_field() -> None:
    batch = operations(row("A.C", "I", {}, {}), row("A.B", "I", {}, {"ID": "x"}))

    with pytest.raises(
        DecodeError, match=r"not a number \(record 1, table A.B, field ID, text 'x'\)"
    ):
        from_operations(batch, ALL)


@pytest.mark.parametrize(
    "code", [c for c, r in TYPES.items() if r.family is TypeFamily.UNSUPPORTED]
)
def test_an_unsupported_type_is_refused_by_name(code: int) -> None:
    with pytest.raises(DefinitionError, match=f"COL has type {TYPES[code].name}"):
        parser_for(Column("COL", code, 8))


def test_text_is_measured_in_characters_and_padding_is_cut() -> None:
    assert parser_for(Column("C", 64, 2))(pa.array(["éé", None])).to_pylist() == ["éé", None]
    assert parser_for(Column("C", 0, 2))(pa.array(["a    ", "b"])).to_pylist() == ["a ", "b"]
    for code, text in ((64, "a  "), (0, "abc")):
        with pytest.raises(DecodeError, match="record 1"):
            parser_for(Column("C", code, 2))(pa.array(["a", text]))
