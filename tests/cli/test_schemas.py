"""``trailgate copybook --to``: schemas that other tools take are those of what is read, in every form."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from trailgate import read_records
from trailgate.cli.main import run
from trailgate.mainframe.commands.schemas import arrow_text

TEXT = """
       01  ORDERS.
      * KEY
           05  ORDER-ID  PIC 9(4).
           05  NAME      PIC X(6).
           05  NATIVE-W  PIC 9(18) COMP-5.
           05  TOTAL     PIC S9(5)V99 COMP-3.
           05  TINY      PIC V9(9).
           05  LARGE     PIC 9(20).
           05  WIDE      PIC N(2).
           05  POINT     COMP-2.
           05  AT-B      POINTER.
           05  LINES-N   PIC 9.
           05  ROW-OF    OCCURS 0 TO 2 DEPENDING ON LINES-N.
               10  QTY   PIC 9(20) COMP-3.
               10  PRICE PIC 9V9.
               10  TAG   PIC X(2) OCCURS 2.
"""
KINDS = """
       01  HEADER.
           05  KIND      PIC X.
           05  DAY-OF    PIC 9(3).
       01  DETAIL.
           05  KIND      PIC X.
           05  NAME      PIC X(3).
"""
FIRST = (
    "0001".encode("cp037")
    + "ANNA  ".encode("cp037")
    + bytes(7)
    + b"\x09"
    + b"\x00\x12\x34\x5d"
    + ("0" * 8 + "7" + "9" * 20).encode("cp037")
    + "ab".encode("utf-16-be")
    + b"\x41\x10\x00\x00\x00\x00\x00\x00"
    + b"\xde\xad\xbe\xef"
    + "2".encode("cp037")
    + (bytes(10) + b"\x5c" + "15ABCD".encode("cp037")) * 2
)


@pytest.fixture
def copybook(tmp_path: Path) -> str:
    path = tmp_path / "orders.cpy"
    path.write_text(TEXT)
    return str(path)


@pytest.fixture
def kinds(tmp_path: Path) -> str:
    path = tmp_path / "kinds.cpy"
    path.write_text(KINDS)
    return str(path)


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "data"
    path.write_bytes(FIRST)
    return str(path)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(["copybook", *words]) == 0
    return capsys.readouterr().out


def errors_of(  # noqa: PLR0911  one a type
    value: Any, schema: dict[str, Any], root: dict[str, Any]
) -> list[str]:
    """Return what is wrong with a value, by the words of JSON Schema that we write; fails for others."""
    known = {"$schema", "$defs", "title", "description", "type", "anyOf", "$ref"}
    known |= {"properties", "required", "additionalProperties", "items", "pattern", "maxLength"}
    assert set(schema) <= known
    if "$ref" in schema:
        return errors_of(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root)
    if "anyOf" in schema:
        found = [errors_of(value, one, root) for one in schema["anyOf"]]
        return [] if [] in found else [error for errors in found for error in errors]
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    names = {int: "integer", float: "number", str: "string", dict: "object", list: "array"}
    kind = "null" if value is None else names[type(value)]
    if kind not in types:
        return [f"{value!r} is not of {types}"]
    if isinstance(value, str):
        fits = re.search(schema.get("pattern", ""), value) is not None
        return [] if fits and len(value) <= schema.get("maxLength", 99) else [value]
    if isinstance(value, list):
        return [error for one in value for error in errors_of(one, schema["items"], root)]
    if isinstance(value, dict):
        assert schema["additionalProperties"] is False
        if set(value) - set(schema["properties"]) or set(schema["required"]) - set(value):
            return [f"other members: {set(value) ^ set(schema['properties'])}"]
        members = schema["properties"]
        return [e for name, one in value.items() for e in errors_of(one, members[name], root)]
    return []


def test_arrows_schema_is_made_again_by_its_python(
    copybook: str, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for options in ({}, {"shape": "flat", "names": "sql"}, {"errors": "column", "raw": "true"}):
        given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        made: dict[str, Any] = {}
        exec(printed(capsys, copybook, "--to", "arrow", *given), made)

        keywords: Any = {n: {"true": True}.get(v, v) for n, v in options.items()}
        expected = read_records(data, copybook, **keywords).schema
        assert made["schema"].equals(expected, check_metadata=True)


@pytest.mark.parametrize("options", [[], ["-o", "shape=flat"], ["-o", "integers=decimal"]])
def test_json_that_is_printed_is_what_its_schema_allows(
    copybook: str, data: str, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    schema = json.loads(printed(capsys, copybook, "--to", "json-schema", *options))

    given = options or ["-o", "shape=tree"]
    assert run(["records", data, "--copybook", copybook, "--format", "json", *given]) == 0
    row = json.loads(capsys.readouterr().out)

    assert schema["$schema"].endswith("2020-12/schema")
    assert errors_of(row, schema, schema) == []
    assert row["TINY"] == "0.000000007"
    for name, wrong in (("NAME", "TOO LONG"), ("TOTAL", 1), ("AT-B", "xyz"), ("NOT", None)):
        assert errors_of({**row, name: wrong}, schema, schema)


def test_tables_of_sql_take_the_records(
    copybook: str, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, copybook, "--to", "sql", "-o", "names=sql")
    rows = read_records(data, copybook, shape="flat", names="sql").read_all()

    with duckdb.connect() as database:
        database.execute(text)
        database.register("read", rows)
        database.execute("INSERT INTO orders BY NAME SELECT * FROM read")
        found = database.execute("SELECT order_id, total, large, price_2, tag_2_1 FROM orders")
        assert [str(one) for one in found.fetchone() or ()] == [
            "1",
            "-123.45",
            "9" * 20,
            "1.5",
            "AB",
        ]
        with pytest.raises(duckdb.ConstraintException):
            database.execute("INSERT INTO orders BY NAME SELECT * FROM read")
    assert '  "name" varchar(6),\n' in text
    assert '  "wide" varchar(2),\n' in text
    assert '  "point" double precision,\n' in text


def test_sparks_schema_is_that_of_arrow_with_its_metadata(
    copybook: str, data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    types: Any = pytest.importorskip("pyspark.sql.types")
    schemas: Any = pytest.importorskip("trailgate.spark.schemas")

    found = types.StructType.fromJson(json.loads(printed(capsys, copybook, "--to", "spark")))

    expected = schemas.spark_schema(read_records(data, copybook).schema)
    assert found == expected
    assert found.json() == expected.json()
    assert found["ORDER-ID"].metadata["key"] == "true"


def test_several_records_have_one_schema_each(
    kinds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = ["-o", "kinds=KIND: H=HEADER, D=DETAIL"]
    for given in ([], rules):
        made: dict[str, Any] = {}
        exec(printed(capsys, kinds, "--to", "arrow", *given), made)
        names = {name: schema.names for name, schema in made["schemas"].items()}
        assert names == {"HEADER": ["KIND", "DAY-OF"], "DETAIL": ["KIND", "NAME"]}

        schema = json.loads(printed(capsys, kinds, "--to", "json-schema", *given))
        assert errors_of({"KIND": "H", "DAY-OF": 7}, schema, schema) == []
        assert errors_of({"KIND": "D", "NAME": "BOB"}, schema, schema) == []
        assert errors_of({"KIND": "D", "DAY-OF": 7, "NAME": "BOB"}, schema, schema)
        assert printed(capsys, kinds, "--to", "sql", *given).count("CREATE TABLE") == 2
    for given in ([*rules, "-o", "segment=DETAIL"], ["-o", "record=detail"]):
        made = {}
        exec(printed(capsys, kinds, "--to", "arrow", *given), made)
        assert made["schema"].names == ["KIND", "NAME"]
    assert "header" not in printed(capsys, kinds, "--to", "sql", "-o", "header=HEADER")


def test_several_copybooks_describe_one_file(
    tmp_path: Path, copybook: str, kinds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, copybook, kinds, "--to", "sql")
    assert re.findall('CREATE TABLE "([a-z]+)"', text) == ["orders", "header", "detail"]
    assert printed(capsys, copybook, kinds).count("\n01 ") == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--to", "sql", "-o", "shape=tree"], "column of lists or structs.*field ROW-OF"),
        (["--to", "sql", "-o", "kind=x"], "has no option kind"),
        (
            ["--to", "sql", "--compiler", "gnucobol", "-o", "compiler=ibm"],
            "compiler is given twice",
        ),
        (["--to", "arrow", "-o", "copybookText=x"], "copybook"),
        (["--to", "arrow", "--format", "json"], "--to cannot be combined with --format"),
        (["--to", "spark", "--dialects"], "--to cannot be combined with"),
        (["-o", "names=sql"], "--option applies only to schemas"),
        (["--to", "sql", "-o", f"rename=ORDER-ID={'X' * 64}"], "has names of at most 63 bytes"),
    ],
)
def test_what_no_schema_has_is_refused(
    copybook: str, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert run(["copybook", copybook, *words]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_the_types_that_python_makes_are_arrows() -> None:
    kinds = [pa.int64(), pa.string(), pa.binary(), pa.float64(), pa.decimal128(38, 4)]
    kinds += [pa.list_(pa.int64()), pa.struct([pa.field("A-'\"\\", pa.string(), nullable=False)])]
    schema = pa.schema([pa.field(f"c{at}", kind) for at, kind in enumerate(kinds)])
    made: dict[str, Any] = {}
    exec(arrow_text({"R": schema}), made)
    assert made["schema"] == schema
