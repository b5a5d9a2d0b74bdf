"""Operations to delimited publications and back: what goes in comes out, however it is cut."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from publication_texts import capture_of, parse_all, rows_of
from trailgate.errors import TrailgateError
from trailgate.messages.publications import publish_options, writer_for
from trailgate.messages.publishing.messages import Messages
from trailgate.model.changes import ChangeBatch
from trailgate.model.operations_schema import OPERATIONS_SCHEMA
from trailgate.model.tables import Column, Definitions, Table
from trailgate.operations.operations_table import from_operations

TABLE = Table(
    "S.T",
    (
        Column("K", 64, 40, key=True, nullable=False),
        Column("V", 64, 400),
        Column("N", 134, 8, scale=2),
        Column("D", 192, 26),
        Column("F", 143, 8),
        Column("X", 64, 40, sub_type=4),
        Column("P", 64, 60, sub_type=2),
    ),
)
DEFINITIONS = Definitions((TABLE, Table('OTHER."A B"', TABLE.columns[:2])))
TEXT = st.text(st.sampled_from("ab \"',;\n\r\\éÿ漢"), max_size=6)
VALUES: dict[str, st.SearchStrategy[str]] = {
    "K": TEXT,
    "V": TEXT,
    "N": st.integers(-(10**9), 10**9).map(lambda n: f"{n / 100:.2f}"),
    "D": st.datetimes().map(lambda t: t.isoformat(" ", "microseconds")),
    "F": st.floats(allow_nan=False, allow_infinity=False).map(
        lambda x: str(pa.scalar(x).cast(pa.string()).as_py())
    ),
    "X": st.binary(max_size=5).map(lambda raw: raw.hex().upper()),
    "P": st.decimals(allow_nan=False, allow_infinity=False, places=3).map(lambda d: f"{d:f}"),
}
TIMES = st.integers(0, 10**9).map(
    lambda n: datetime(2001, 2, 3, tzinfo=UTC) + timedelta(microseconds=n % 3 * 1001, seconds=n)
)


@st.composite
def row(draw: st.DrawFn, names: tuple[str, ...]) -> dict[str, str | None]:
    """Return a row; its key is not null."""
    own: dict[str, str | None] = {name: draw(st.none() | VALUES[name]) for name in names}
    own["K"] = draw(VALUES["K"])
    return own


@st.composite
def operation(draw: st.DrawFn) -> dict[str, Any]:
    """Return an operation without its transaction."""
    table = draw(st.sampled_from(list(DEFINITIONS)))
    names = tuple(column.name for column in table.columns)
    kind = draw(st.sampled_from("IUD"))
    before: dict[str, Any] = {} if kind == "I" else draw(row(names))
    after: dict[str, Any] = {} if kind == "D" else draw(row(names))
    if kind == "U" and before["K"] != after["K"]:
        kind = "K"
    return {"table": table.name, "op_type": kind, "before": before, "after": after}


@st.composite
def transactions(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return the operations of a few transactions, as rows of the operations table."""
    rows: list[dict[str, Any]] = []
    for number in range(draw(st.integers(0, 4))):
        own = draw(st.lists(operation(), min_size=1, max_size=4))
        time, csn = draw(TIMES), f"00{number:02}.t{number}"
        for i, fields in enumerate(own):
            last = i == len(own) - 1
            mark = ("W" if last else "B") if not i else "E" if last else "M"
            ids: dict[str, Any] = {
                "tx_id": f"t{number}",
                "csn": csn,
                "seq_id": f"{csn}.{i:010}",
                "tx_ind": mark,
            }
            ids |= {"position": f"{len(rows):020}", "tx_name": draw(st.sampled_from([None, "P"]))}
            rows.append(fields | ids | {"op_ts": time})
    return rows


def batch_of(rows: list[dict[str, Any]]) -> ChangeBatch:
    """Return rows of the operations table as changes."""
    whole = [dict.fromkeys(OPERATIONS_SCHEMA.names) | one for one in rows]
    for one in whole:
        one["before"], one["after"] = list(one["before"].items()), list(one["after"].items())
    return from_operations(pa.RecordBatch.from_pylist(whole, OPERATIONS_SCHEMA), DEFINITIONS)


def written(rows: list[dict[str, Any]], cuts: list[int], **options: Any) -> list[bytes]:
    """Return the bodies of operations that are written in batches."""
    writer = writer_for("delimited", publish_options("delimited", options))
    bounds = sorted({0, len(rows), *(cut for cut in cuts if cut <= len(rows))})
    made: list[Messages] = []
    for begin, end in pairwise(bounds):
        made.append(writer.write(batch_of(rows[begin:end])))
    return [body for part in (*made, writer.finish()) for body in part.bodies.to_pylist()]


def comparable(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without what a message does not have: positions."""
    names = ("table", "op_type", "op_ts", "tx_id", "tx_ind", "csn", "seq_id", "tx_name")
    return [
        {name: one[name] for name in names}
        | {image: dict(one[image]) for image in ("before", "after")}
        for one in rows
    ]


@given(
    transactions(),
    st.lists(st.integers(0, 12), max_size=3),
    st.sampled_from(["transaction", "row"]),
    st.sampled_from([1000, 4000, 1 << 20]),
)
def test_operations_come_back_from_publications(
    rows: list[dict[str, Any]], cuts: list[int], content: str, limit: int
) -> None:
    capture = capture_of(DEFINITIONS, full=True)

    bodies = written(rows, cuts, content=content, max_message_bytes=limit)
    found, parsed = parse_all(capture, [bodies])

    assert [problem for part in parsed for problem in part.problems] == []
    assert comparable(found) == comparable(rows_of(batch_of(rows)))
    assert all(len(body) <= limit for body in bodies)
    assert bodies == written(rows, [], content=content, max_message_bytes=limit)


@given(transactions(), st.sampled_from(["\\x3b", "|", "X'7E'"]), st.sampled_from(["NEL", "LF"]))
def test_delimiters_are_those_of_the_options(
    rows: list[dict[str, Any]], field: str, record: str
) -> None:
    given_ = {"fielddelim": field, "recorddelim": record, "decimalpoint": ",", "quote": "'"}
    properties = "\n".join(f"{name}={value}" for name, value in given_.items())
    capture = capture_of(DEFINITIONS, properties, full=True)

    found, parsed = parse_all(capture, [written(rows, [], **given_)])

    assert [problem for part in parsed for problem in part.problems] == []
    assert comparable(found) == comparable(rows_of(batch_of(rows)))


@given(st.binary(max_size=60), transactions(), st.integers(0, 400))
def test_any_bytes_give_operations_or_errors_of_ours(
    junk: bytes, rows: list[dict[str, Any]], at: int
) -> None:
    bodies = [body[:at] + junk + body[at + len(junk) :] for body in written(rows, [])]

    _, found = parse_all(capture_of(DEFINITIONS), [[*bodies, junk]])

    assert all(
        isinstance(problem.error, TrailgateError) for part in found for problem in part.problems
    )
