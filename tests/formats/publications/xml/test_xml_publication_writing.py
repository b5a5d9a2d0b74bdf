"""Operations to XML publications and back: what goes in comes out, valid by the schema's rules, however it is cut."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import examples
from oracles.xml_publications_naive import check
from publication_files import EVERYTHING, captured, xml_publications
from trailgate.capture.formats import publish_options, writer_for
from trailgate.definitions.defgen_layout import complete_table
from trailgate.errors import EncodeError, OptionError
from trailgate.messages.message_batch import messages_from
from trailgate.model.changes import OPERATIONS_SCHEMA, ChangeBatch
from trailgate.model.operations_table import from_operations, to_operations
from trailgate.model.tables import Column, Definitions, Table

TABLE = complete_table(
    Table(
        "S.T",
        (
            Column("K", 64, 40, key=True, nullable=False),
            Column("V", 64, 400),
            Column("C", 0, 8),
            Column("N", 134, 8, scale=2),
            Column("I", 132, 10),
            Column("D", 192, 26),
            Column("DAY", 192, 10),
            Column("F", 143, 8),
            Column("X", 64, 40, sub_type=4),
            Column("P", 64, 60, sub_type=3),
            Column("L", 64, 400, lob_type=1),
            Column("B", 64, 400, sub_type=4, lob_type=1),
        ),
    )
)
OTHER = Table('A & "B".<T>', TABLE.columns[:2])
DEFINITIONS = Definitions((TABLE, OTHER))
TEXT = st.text(st.sampled_from("ab \"',<>&;\n\r\t\\]é漢\U0001f600\uffef"), max_size=8)
HEX = st.binary(max_size=5).map(lambda raw: raw.hex().upper())
VALUES: dict[str, st.SearchStrategy[str]] = {
    "K": TEXT,
    "V": TEXT,
    "C": TEXT,
    "N": st.integers(-(10**9), 10**9).map(lambda n: f"{n / 100:.2f}"),
    "I": st.integers(-(2**31), 2**31 - 1).map(str),
    "D": st.datetimes().map(lambda t: t.isoformat(" ", "microseconds")),
    "DAY": st.dates().map(str),
    "F": st.floats().map(lambda x: str(pa.scalar(x).cast(pa.string()).as_py())),
    "X": HEX,
    "P": st.decimals(allow_nan=False, allow_infinity=False, places=3).map(lambda d: f"{d:f}"),
    "L": TEXT,
    "B": HEX,
}
TIMES = st.integers(0, 10**9).map(
    lambda n: datetime(2001, 2, 3, tzinfo=UTC) + timedelta(microseconds=n % 3 * 1001, seconds=n)
)
LARGE = ("L", "B")


@st.composite
def image(draw: st.DrawFn, names: list[str]) -> dict[str, str | None]:
    return {name: draw(VALUES[name] if name == "K" else st.none() | VALUES[name]) for name in names}


@st.composite
def operation(draw: st.DrawFn) -> dict[str, Any]:
    """Return an operation without its transaction, of some columns; large objects have no befores."""
    table = draw(st.sampled_from(list(DEFINITIONS)))
    names = [column.name for column in table.columns]
    kind = draw(st.sampled_from("IUD"))
    some = ["K", *(name for name in names[1:] if draw(st.booleans()))]
    before: dict[str, Any] = {}
    after = {} if kind == "D" else draw(image(some))
    if kind == "D":
        before = draw(image([name for name in some if name not in LARGE]))
    elif kind == "U":
        known = [name for name in some if name not in LARGE and draw(st.booleans())]
        before = draw(image(known))
        if "K" in before and before["K"] != after["K"]:
            kind = "K"
    return {"table": table.name, "op_type": kind, "before": before, "after": after}


@st.composite
def transactions(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return the operations of a few transactions, as rows of the operations table."""
    rows: list[dict[str, Any]] = []
    for number in range(draw(st.integers(0, 4))):
        own = draw(st.lists(operation(), min_size=1, max_size=4))
        csn = f"00{draw(st.integers(number, number + 1)):02}"
        common = {
            "tx_id": csn,
            "csn": csn,
            "op_ts": draw(TIMES),
            "tx_name": draw(st.sampled_from([None, "P", 'a<&"b'])),
            "tx_owner": draw(st.sampled_from([None, "APP"])),
        }
        for i, fields in enumerate(own):
            last = i == len(own) - 1
            mark = ("W" if last else "B") if not i else "E" if last else "M"
            ids = {"seq_id": f"{csn}.{i:010}", "tx_ind": mark, "position": f"{len(rows):020}"}
            rows.append(fields | ids | common)
    return rows


def batch_of(rows: list[dict[str, Any]], definitions: Definitions = DEFINITIONS) -> ChangeBatch:
    whole = [dict.fromkeys(OPERATIONS_SCHEMA.names) | one for one in rows]
    for one in whole:
        one["before"], one["after"] = list(one["before"].items()), list(one["after"].items())
    return from_operations(pa.RecordBatch.from_pylist(whole, OPERATIONS_SCHEMA), definitions)


def written(rows: list[dict[str, Any]], cuts: list[int], **options: Any) -> list[bytes]:
    """Return the bodies of operations that are written in batches; the place of each is right."""
    writer = writer_for("xml", publish_options("xml", options))
    bounds = sorted({0, len(rows), *(cut for cut in cuts if cut <= len(rows))})
    bodies: list[bytes] = []
    for begin, end in pairwise(bounds):
        made = writer.write(batch_of(rows[begin:end]))
        assert len(made.bodies) == len(made.order)
        assert (made.order < end - begin).all()
        bodies += made.bodies.to_pylist()
    return [*bodies, *writer.finish().bodies.to_pylist()]


def comparable(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without what a message does not have: positions."""
    names = (
        "table", "op_type", "tx_id", "csn", "tx_name", "tx_owner", "before", "after", "tx_ind",
        "seq_id",
    )  # fmt: skip
    return [
        {name: one[name] or None for name in names}
        | {"op_ts": str(one["op_ts"]).removesuffix("+00:00")}
        for one in rows
    ]


def strings(row: dict[str, Any]) -> list[dict[str, str | None]]:
    """Return the images of a row: their strings, and of other columns whether they are there and NULL."""
    return [
        {
            name: value if name in ("K", "V", "C", "L") or value is None else "..."
            for name, value in row[image].items()
        }
        for image in ("before", "after")
    ]


def normal(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return operations as the operations table has them."""
    found: list[dict[str, Any]] = to_operations(batch_of(rows)).to_pylist(maps_as_pydicts="strict")
    return found


@settings(max_examples=examples(60))
@given(
    transactions(),
    st.lists(st.integers(0, 12), max_size=3),
    st.sampled_from(["transaction", "row"]),
    st.sampled_from([3000, 6000, 1 << 20]),
    st.sampled_from(["inline", "messages"]),
    st.booleans(),
)
def test_operations_come_back_from_valid_publications(
    rows: list[dict[str, Any]],
    cuts: list[int],
    content: str,
    limit: int,
    lobs: str,
    schemas: bool,
) -> None:
    options = {"content": content, "max_message_bytes": limit, "lobs": lobs, "schemas": schemas}
    capture = xml_publications(definitions=DEFINITIONS, rules=EVERYTHING)

    bodies = written(rows, cuts, database="S&B", **options)
    found = captured(capture, messages_from(bodies))

    kinds = [check(body) for body in bodies]
    assert found.problems == []
    assert comparable(found.rows) == comparable(normal(rows))
    assert all(len(body) <= limit for body in bodies)
    naive = [row for _, own in kinds for row in own]
    assert [row["table"] for row in naive] == [one["table"] for one in rows]
    if lobs == "inline":
        assert [strings(row) for row in naive] == [strings(one) for one in found.rows]
        assert bodies == written(rows, [], database="S&B", **options)
    described = [kind for kind, _ in kinds if kind == "subSchema"]
    assert len(described) == (len({one["table"] for one in rows}) if schemas else 0)


def test_segments_are_numbered_and_the_last_one_is_marked() -> None:
    rows = many(30)

    bodies = written(rows, [7, 20], max_message_bytes=1500)

    heads = [body[: body.index(b"cmitLSN")].decode().split("<trans ")[1] for body in bodies]
    count = len(bodies)
    assert count > 3
    assert heads == [f'isLast="{int(n == count)}" segmentNum="{n}" ' for n in range(1, count + 1)]


def many(count: int) -> list[dict[str, Any]]:
    """Return a transaction of so many inserts."""
    common: dict[str, Any] = {
        "table": "S.T",
        "op_type": "I",
        "before": {},
        "csn": "01",
        "tx_id": "01",
    }
    common["op_ts"] = datetime(2026, 1, 31, tzinfo=UTC)
    marks = ["B", *"M" * (count - 2), "E"] if count > 1 else ["W"]
    return [
        common | {"after": {"K": str(n)}, "tx_ind": mark, "position": f"{n:020}"}
        for n, mark in enumerate(marks)
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"op_type": "T", "after": {}}, "a truncate cannot be published in this format"),
        ({"after": {"V": "x"}}, "key column K is missing"),
        ({"after": {"K": "a\x01"}}, "the value has a control character"),
        ({"after": {"K": "\ufffe"}}, "the value has a control character"),
        ({"csn": None, "tx_id": None}, "no transaction id and no commit sequence number"),
        ({"op_type": "U", "before": {"V": "x"}, "after": {"K": "1"}}, "column V has a before value but no after value"),
        ({"op_type": "U", "before": {"L": "x"}, "after": {"K": "1", "L": "y"}}, "large object L has a before value"),
        ({"after": {"K": "1" * 40, "V": "<" * 400}}, "a message may have at most 1500"),
    ],
)  # fmt: skip
def test_values_that_the_format_cannot_represent_are_refused(
    change: dict[str, Any], said: str
) -> None:
    (row,) = many(1)

    with pytest.raises(EncodeError) as raised:
        written([row | change], [], lobs="messages", max_message_bytes=1500)

    assert said in str(raised.value)
    assert "S.T" in str(raised.value) or "bytes" in said or "at most" in said


def test_options_are_checked() -> None:
    with pytest.raises(OptionError, match="lobs must be inline or messages, not 'x'"):
        publish_options("xml", {"lobs": "x"})


def test_a_table_is_described_again_when_its_definition_changes() -> None:
    writer = writer_for("xml", publish_options("xml", {"schemas": "true"}))
    wider = Definitions((replace(TABLE, columns=(*TABLE.columns, Column("NEW", 64, 10))),))
    kinds = []
    for definitions in (DEFINITIONS, DEFINITIONS, wider):
        made = writer.write(batch_of(many(1), definitions)).bodies.to_pylist()
        kinds.append([check(body)[0] for body in made])

    assert kinds == [["subSchema", "trans"], ["trans"], ["subSchema", "trans"]]


@pytest.mark.parametrize(
    ("value", "digits"),
    [("1E7", "10000000"), ("-1.5e-3", "-0.0015"), ("12.50", "12.50"), ("+2E+2", "200")],
)
def test_numbers_are_written_without_exponents(value: str, digits: str) -> None:
    table = Table("S.T", (Column("N", 64, 60, sub_type=2),))
    (row,) = many(1)
    rows = [row | {"after": {"N": value}}]

    made = writer_for("xml", publish_options("xml", {}))
    batch = batch_of(rows, Definitions((table,)))
    bodies = [*made.write(batch).bodies.to_pylist(), *made.finish().bodies.to_pylist()]

    assert f">{digits}<".encode() in b"".join(bodies)


def test_a_number_with_a_huge_exponent_is_refused() -> None:
    table = Table("S.T", (Column("N", 64, 60, sub_type=2),))
    (row,) = many(1)
    batch = batch_of([row | {"after": {"N": "1E999999999"}}], Definitions((table,)))

    with pytest.raises(EncodeError, match="has an exponent above 6144"):
        writer_for("xml", publish_options("xml", {})).write(batch)
