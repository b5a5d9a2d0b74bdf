"""Operations to delimited publications and back: what goes in comes out, however it is cut."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from full_operations import DEFINITIONS, transactions
from laws import examples
from publication_strings import capture_of, parse_all, rows_of
from trailgate.capture.formats import publish_options, writer_for
from trailgate.errors import TrailgateError
from trailgate.messages.publishing import WrittenMessages
from trailgate.model.changes import OPERATIONS_SCHEMA, ChangeBatch
from trailgate.model.operations_table import from_operations

MODEST = settings(max_examples=examples(40))


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
    made: list[WrittenMessages] = []
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


@MODEST
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
    # A reader takes two equal messages of one transaction for one that was sent twice.
    assume(len(set(bodies)) == len(bodies))
    found, parsed = parse_all(capture, [bodies])

    assert [problem for part in parsed for problem in part.problems] == []
    assert comparable(found) == comparable(rows_of(batch_of(rows)))
    assert all(len(body) <= limit for body in bodies)
    assert bodies == written(rows, [], content=content, max_message_bytes=limit)


@MODEST
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


@MODEST
@given(st.binary(max_size=60), transactions(), st.integers(0, 400))
def test_any_bytes_give_operations_or_errors_of_ours(
    junk: bytes, rows: list[dict[str, Any]], at: int
) -> None:
    bodies = [body[:at] + junk + body[at + len(junk) :] for body in written(rows, [])]

    _, found = parse_all(capture_of(DEFINITIONS), [[*bodies, junk]])

    assert all(
        isinstance(problem.error, TrailgateError) for part in found for problem in part.problems
    )
