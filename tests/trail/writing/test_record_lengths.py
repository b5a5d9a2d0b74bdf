"""A token that asks for RECORDLENGTH has the length that Logdump shows of its record, of each record type."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from laws import examples
from logdump.sessions import answers, opened
from trail.written_formats import (
    DEFINITIONS,
    Operations,
    all_runs,
    formats,
    read_again,
    records_of,
    written,
)
from trailgate.errors import EncodeError
from trailgate.logdump.result_output import text_lines
from trailgate.model.changes import RECORD_LENGTH
from trailgate.trail.format.record_types import ROLE_OF, RecordRole
from trailgate.trail.format.tokens import ByteOrder, decode_user_tokens
from trailgate.trail.records.record import TrailRecord
from trailgate.trail.writing.trail_format import TrailFormat, UpdateFormat

NAME = "TKN-LENGTH"
COMMON = {"table": "S.LARGE", "op_ts": 5, "tx_ind": "W", "tx_id": "7", "csn": "9"}
# No token is in the records that continue another one.
BARE = (RecordRole.FRAGMENT, RecordRole.LARGE_OBJECT, RecordRole.METADATA)


def operation(kind: str, before: dict[str, Any], after: dict[str, Any], **more: str) -> Any:
    tokens = {"TKN-FIRST": "1", NAME: RECORD_LENGTH, "TKN-LAST": "", **more}
    return COMMON | {"op_type": kind, "before": before, "after": after, "tokens": tokens}


def wide(size: int) -> dict[str, Any]:
    """Return an image whose values have about so many bytes, all of them in the record."""
    return {"ID": 1, "WIDE": "w" * min(size, 65_000), "MORE": "m" * max(0, size - 65_000)}


ROWS = {
    "insert": operation("I", {}, {"ID": 1, "NAME": "a"}),
    "update": operation("U", {"ID": 1, "NAME": "a"}, {"ID": 1, "NAME": "b" * 30}),
    "update without before": operation("U", {}, {"ID": 1, "NAME": "b"}),
    "key update": operation("K", {"ID": 1}, {"ID": 2, "NAME": "bb"}),
    "key update with all": operation("K", {"ID": 1, "NAME": "a"}, {"ID": 2, "NAME": "bb"}),
    "delete": operation("D", {"ID": 1}, {}),
    "truncate": operation("T", {}, {}),
    "large object": operation("I", {}, {"ID": 1, "DOC": "x" * 9000}),
    "update with large objects": operation("U", {"ID": 1, "DOC": "y" * 5000}, {"DOC": "x" * 9000}),
    # The number of digits changes within each of these ranges, and at the last one the record is cut.
    **{f"{n} bytes": operation("I", {}, {"ID": 1, "NAME": "n" * n}) for n in range(76, 80)},
    **{f"{n} bytes": operation("I", {}, {"ID": 1, "NAME": "n" * n}) for n in range(976, 980)},
    **{f"{n} bytes": operation("I", {}, wide(n)) for n in range(9968, 9972)},
    **{f"{n} bytes": operation("I", {}, wide(n)) for n in (65_395, 65_396, 65_397, 65_480)},
    "fragments": operation("I", {}, wide(100_000)),
    "fragments of both images": operation("U", wide(100_000), wide(90_000)),
    "long key update": operation("K", wide(100_000), wide(90_000) | {"ID": 2}),
    "most tokens": operation("I", {}, wide(100_000), **{"TKN-X": "x" * 1950}),
    # GGS tokens leave about 10,000 bytes of the first record to its data: four digits in the room for five.
    **{
        f"{n} digits of a tag": operation("I", {}, wide(70_000), ORATAG="AB" * n)
        for n in (55_421, 55_422, 55_423)
    },
}


def check(records: list[TrailRecord]) -> int:
    """Compare each token with its record's data; return the number of tokens."""
    found = 0
    for record in records:
        if ROLE_OF[record.io_type] in BARE:
            assert record.user is None
            continue
        tokens = decode_user_tokens(record.user or b"")
        assert tokens is not None
        assert dict(tokens)[NAME] == str(len(record.data or b""))
        found += 1
    return found


@pytest.mark.parametrize("updates", UpdateFormat)
def test_each_record_states_its_own_length(updates: UpdateFormat) -> None:
    form = TrailFormat(7, ByteOrder.LITTLE, updates)
    for name, row in ROWS.items():
        body, encoded = written([row], form, DEFINITIONS)

        records = records_of(body, form.order)[len(DEFINITIONS) + 1 :]

        assert check(records) >= 1, name
        assert sum(record.length for record in records) == encoded.body.size
        assert max(record.length for record in records) <= 0xFFFF


def test_a_length_of_fewer_digits_than_there_is_room_for_is_right() -> None:
    """The rows of ORATAG are those in which the first record has 9,999 or 10,000 bytes of data."""
    form = TrailFormat(7)
    rows = [row for name, row in ROWS.items() if name.endswith("tag")]
    body, _ = written(rows, form, DEFINITIONS)
    firsts = [one for one in records_of(body, form.order) if one.user]

    sizes = [len(one.data or b"") for one in firsts]

    assert min(sizes) < 10_000 <= max(sizes)
    assert check(firsts) == len(rows)


@settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(all_runs(), formats())
def test_the_token_changes_nothing_else(ops: Operations, form: TrailFormat) -> None:
    asked = [op | {"tokens": op["tokens"] | {NAME: RECORD_LENGTH}} for op in ops]
    body, _ = written(asked, form, DEFINITIONS)
    bare, _ = written(ops, form, DEFINITIONS)

    begin = len(DEFINITIONS) + 1 if form.by_index else 0
    check(records_of(body, form.order)[begin:])
    found, wanted = (read_again(raw, form, DEFINITIONS) for raw in (body, bare))
    for op in found:
        assert op["tokens"].pop(NAME).isdigit()
    places = {"position": None}
    assert [op | places for op in found] == [op | places for op in wanted]


@pytest.mark.parametrize("updates", UpdateFormat)
def test_logdump_shows_the_same_length_beside_the_token(
    tmp_path: Path, updates: UpdateFormat
) -> None:
    form = TrailFormat(7, updates=updates)
    body, _ = written(list(ROWS.values()), form, DEFINITIONS)
    session = opened(tmp_path, body)
    settled = answers(session, "GHDR ON", "USERTOKEN DETAIL", "RECLEN 0", "NEXT 1000")

    text = "\n".join(line for result in settled for line in text_lines(result))

    lengths, pairs = re.compile(r"RecLength *: *(\d+)"), []
    for part in text.split("Hdr-Ind")[1:]:
        token = re.search(rf"{NAME}\W+(\d+)", part)
        if token is not None:
            (length,) = lengths.findall(part)
            pairs.append((length, token[1]))
    assert len(pairs) >= len(ROWS)
    assert [length for length, _ in pairs] == [token for _, token in pairs]


def test_tokens_that_are_too_long_with_the_length_are_refused() -> None:
    row = operation("I", {}, {"ID": 1, "NAME": "a"}, **{"TKN-X": "x" * 1960})

    with pytest.raises(
        EncodeError, match=r"user tokens of 20\d\d bytes: a record may have at most"
    ):
        written([row], TrailFormat(7), DEFINITIONS)
