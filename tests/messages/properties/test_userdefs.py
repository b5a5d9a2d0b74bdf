"""Tables defined in the properties: their layout, their capture, and each wrong line named."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from trailgate.definitions.defgen import read_sourcedefs, write_sourcedefs
from trailgate.errors import OptionError
from trailgate.formats.delimited.options import DelimitedOptions, delimited_options
from trailgate.jobs.capture.loading import load_capture
from trailgate.messages.message_batch import messages_from
from trailgate.messages.properties import parse_properties
from trailgate.messages.property_table import find_property
from trailgate.model.operations_table import to_operations
from trailgate.model.tables import Definitions

PLAIN = """\
parser.type=delim
delim.header=op,table,ts
delim.optype=op
delim.schemaandtable=table
delim.timestamp=ts
delim.timestamp.format=YYYY-MM-DD
"""
ORDERS = """\
delim.userdefs.tables=my.ORDERS
delim.userdefs.my.ORDERS.columns=Id, Name
delim.userdefs.my.ORDERS.Id=vchar 4
delim.userdefs.my.ORDERS.Name=vchar 61
"""
FILE = """\
Definition for table {name}
Record length: 10
Syskey: 0
Columns: 1
ID    64   4    0  0  0 1 0   4   4  0 0 0 0 0 1  0 1 0
End of definition
"""


def options(text: str) -> DelimitedOptions:
    return delimited_options(parse_properties((PLAIN + text).encode(), "a.properties"))


def test_a_table_has_its_columns_in_order_and_a_layout() -> None:
    (table,) = options(ORDERS).userdefs

    assert table.name == "my.ORDERS"
    assert [(c.name, c.data_type, c.external_length) for c in table.columns] == [
        ("Id", 64, 4),
        ("Name", 64, 61),
    ]
    assert [c.fetch_offset for c in table.columns] == [0, 10]
    assert table.record_length == 10 + 66
    assert not any(column.key for column in table.columns)


def test_the_tables_are_a_definitions_file() -> None:
    tables = Definitions(options(ORDERS).userdefs)

    assert read_sourcedefs(write_sourcedefs(tables)).tables == tables.tables


def test_options_with_tables_survive_pickling() -> None:
    some = options(ORDERS)
    again = pickle.loads(pickle.dumps(some))

    assert (again, hash(again), again.sourcedefs) == (some, hash(some), "")


def test_names_are_compared_without_case() -> None:
    upper = ORDERS.replace("my.ORDERS.", "MY.Orders.").replace("s.Id=", "s.ID=")

    assert options(upper).userdefs == options(ORDERS).userdefs


def test_each_property_goes_to_the_table_its_whole_name_says() -> None:
    text = """\
delim.userdefs.tables=a.b, a.b.c, "x.y".z
delim.userdefs.a.b.columns=c
delim.userdefs.a.b.c=vchar 1
delim.userdefs.a.b.c.columns=d,"columns","e f"
delim.userdefs.a.b.c.d=vchar 2
delim.userdefs.a.b.c."columns"=vchar 3
delim.userdefs.a.b.c."e f"=VCHAR  4
delim.userdefs."x.y"."z".columns=g
delim.userdefs."x.y".z.g=vchar 65535
"""
    found = {
        table.name: [(column.name, column.external_length) for column in table.columns]
        for table in options(text).userdefs
    }

    assert found == {
        "a.b": [("c", 1)],
        "a.b.c": [("d", 2), ("columns", 3), ("e f", 4)],
        '"x.y".z': [("g", 65535)],
    }


def test_the_list_of_columns_has_a_row_of_its_own() -> None:
    rows = [find_property(f"delim.userdefs.a.b.{last}") for last in ("columns", "c")]

    assert [row.name.rpartition(".")[2] for row in rows if row] == ["columns", "<COLUMN>"]


@pytest.mark.parametrize(
    ("old", "new", "says", "hint", "line"),
    [
        ("vchar 61", "char 61", "type vchar N, found 'char 61'", "Only vchar N", 10),
        ("vchar 61", "vchar", "type vchar N, found 'vchar'", "Only vchar N", 10),
        ("vchar 61", "vchar 61,2", "type vchar N", "Only vchar N", 10),
        ("vchar 61", "vchar 0", "a length of 1 to 65535, found 0", "", 10),
        ("vchar 61", "vchar 65536", "a length of 1 to 65535", "", 10),
        ("ORDERS.Name", "ORDES.Name", "my.ORDES is not listed", "Did you mean my.ORDERS?", 10),
        ("ORDERS.Name", "X.Y.Name", "my.X.Y is not listed", "delim.userdefs.tables", 10),
        ("ORDERS.Name", "ORDERS.Nme", "column Name of my.ORDERS has no type", "Nme", 8),
        ("=Id, Name", "=Id", "column Name is not listed in delim.userdefs.my.ORDERS", "", 10),
        ("=Id, Name", "=Id, Name,", "a name is empty", "", 8),
        ("=Id, Name", "=Id, Name, ID", "ID is named twice", "", 8),
        ("=Id, Name", "=Id, a.b", "expected a column name, found 'a.b'", "quotes", 8),
        ("=Id, Name", "=Id, Name, x", "column x of my.ORDERS has no type", "ORDERS.x=vchar N", 8),
        ("=my.ORDERS", "=my.ORDERS,MY.orders", "MY.orders is named twice", "", 7),
        ("=my.ORDERS", "=my.ORDERS,one", "such as SCHEMA.TABLE, found 'one'", "", 7),
        ("=my.ORDERS", "=my.ORDERS,my.B", "delim.userdefs.my.B.columns is required", "", 7),
        ("ORDERS.Id=", 'ORDERS."Name"=', "has a type already", "", 10),
        ("my.ORDERS.Id", "ORDERS.Id", "unknown property", "", 9),
    ],
)
def test_a_wrong_line_is_named(old: str, new: str, says: str, hint: str, line: int) -> None:
    text = ORDERS.replace(old, new)
    assert text != ORDERS

    with pytest.raises(OptionError) as caught:
        options(text)

    assert says in caught.value.problem
    assert hint in caught.value.hint
    assert (caught.value.where.source, caught.value.where.line) == ("a.properties", line)


def test_a_table_without_the_list_of_tables_is_an_error() -> None:
    text = "delim.sourcedefs=x.def\n" + ORDERS.partition("\n")[2]

    with pytest.raises(OptionError, match=r"my\.ORDERS is not listed in delim\.userdefs\.tables"):
        options(text)


def test_definitions_come_from_somewhere() -> None:
    with pytest.raises(OptionError, match=r"delim\.sourcedefs is required .*userdefs\.tables"):
        options("")


def written(folder: Path, text: str) -> Path:
    path = folder / "a.properties"
    path.write_text(PLAIN + text)
    return path


def test_messages_are_captured_without_a_definitions_file(tmp_path: Path) -> None:
    capture = load_capture(written(tmp_path, ORDERS))
    parsed = capture.parse(
        messages_from(["I,MY.ORDERS,2026-01-01,1,pen\nD,my.orders,2026-01-01,1,pen\n"])
    )

    assert not parsed.problems
    insert, delete = to_operations(parsed.batch).to_pylist()
    assert (insert["table"], insert["op_type"], delete["op_type"]) == ("my.ORDERS", "I", "D")
    assert insert["after"] == delete["before"] == [("Id", "1"), ("Name", "pen")]
    assert pickle.loads(pickle.dumps(capture)).definitions == capture.definitions


def test_both_kinds_of_definitions_are_merged(tmp_path: Path) -> None:
    (tmp_path / "a.def").write_text(FILE.format(name="MY.ITEMS"))
    path = written(tmp_path, f"delim.sourcedefs={tmp_path / 'a.def'}\n{ORDERS}")

    capture = load_capture(path)
    parsed = capture.parse(
        messages_from(["I,MY.ORDERS,2026-01-01,1,pen\nI,MY.ITEMS,2026-01-01,7\n"])
    )

    assert [table.name for table in capture.definitions] == ["MY.ITEMS", "my.ORDERS"]
    assert not parsed.problems
    assert sorted(block.table.name for block in parsed.batch.blocks) == ["MY.ITEMS", "my.ORDERS"]


def test_another_definitions_file_is_merged_too(tmp_path: Path) -> None:
    (tmp_path / "b.def").write_text(FILE.format(name="MY.ITEMS"))
    capture = load_capture(written(tmp_path, ORDERS), definitions=tmp_path / "b.def")

    assert len(capture.definitions) == 2


def test_a_table_defined_in_both_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.def").write_text(FILE.format(name="MY.ORDERS"))
    path = written(tmp_path, f"delim.sourcedefs={tmp_path / 'a.def'}\n{ORDERS}")

    with pytest.raises(OptionError, match=r"my\.ORDERS is defined in .*a\.def too") as caught:
        load_capture(path)

    assert (caught.value.where.source, caught.value.where.line) == (str(path), 8)


def test_the_word_key_marks_the_columns_of_the_key() -> None:
    (table,) = options(ORDERS.replace("vchar 4", "vchar 4 KEY")).userdefs

    assert [column.name for column in table.columns if column.key] == ["Id"]
    (read,) = read_sourcedefs(write_sourcedefs(Definitions((table,)))).tables
    assert [column.name for column in read.columns if column.key] == ["Id"]
    with pytest.raises(OptionError, match="expected the type vchar N"):
        options(ORDERS.replace("vchar 4", "vchar 4 keys"))
