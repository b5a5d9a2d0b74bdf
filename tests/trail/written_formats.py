"""Formats, large values and tokens for the tests of writing; and what reading must give again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from trail.batches import batch_of, operations_of
from trail.operation_strategies import DEFINITIONS as PLAIN
from trail.operation_strategies import TEXT, runs
from trailgate.model.tables import Column, Definitions, Table
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.reading.reader import ReaderState, decode
from trailgate.trail.records.record import TrailRecord, decode_record
from trailgate.trail.writing.file_headers import encode_metadata
from trailgate.trail.writing.trail_format import NEWER_LEVEL, TrailFormat, UpdateFormat
from trailgate.trail.writing.writer import EncodedTrail, encode

LARGE = Table(
    "S.LARGE",
    (
        Column("ID", 134, 8, fetch_offset=0, key=True),
        Column("NAME", 64, 50),
        Column("DOC", 64, 8000, lob_type=1),
        Column("RAW", 64, 8000, sub_type=4, lob_type=1),
        Column("NDOC", 66, 8000, sub_type=1, lob_type=1),
        Column("WIDE", 64, 40_000),
        Column("MORE", 64, 40_000),
    ),
)
DEFINITIONS = Definitions((*PLAIN.tables, LARGE))
# At, and one beyond, each length at which something changes; 600,000 makes more pieces than RecCount can say.
SIZES = (1, 2000, 4000, 4001, 6000, 7070, 65_531, 65_532, 140_000, 600_000)
Operations = list[dict[str, Any]]


def formats() -> st.SearchStrategy[TrailFormat]:
    old = st.builds(TrailFormat, st.integers(0, NEWER_LEVEL - 1))
    new = st.builds(
        TrailFormat,
        st.integers(NEWER_LEVEL, 7),
        st.sampled_from(ByteOrder),
        st.sampled_from(UpdateFormat),
    )
    return old | new


def sized(unit: str) -> st.SearchStrategy[str]:
    return st.sampled_from(SIZES).map(lambda size: unit * (size // len(unit.encode())))


@st.composite
def large_images(draw: st.DrawFn) -> dict[str, Any]:
    """Return an image of the table with large objects: few of them large, to be quick."""
    values = {
        "ID": st.integers(0, 9),
        "NAME": TEXT,
        "DOC": TEXT | sized("x") | sized("é"),
        "RAW": st.binary(max_size=9).map(lambda raw: raw.hex().upper())
        | st.sampled_from(SIZES).map(lambda n: "AF" * n),
        "NDOC": TEXT | sized("n"),
        "WIDE": TEXT | sized("w"),
        "MORE": TEXT | st.just("m" * 65_531),
    }
    chosen = draw(st.sets(st.sampled_from(list(values)), min_size=1, max_size=3))
    return {name: draw(st.none() | values[name]) for name in values if name in chosen}


@st.composite
def large_operations(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from("IUKDT"))
    before = draw(large_images()) if kind in "UD" and draw(st.booleans()) else {}
    after = draw(large_images()) if kind in "IUK" else {}
    if kind == "K":
        before = {"ID": draw(st.integers(0, 9))}
    return {"table": "S.LARGE", "op_type": kind, "op_ts": 5, "before": before, "after": after}


def tokens() -> st.SearchStrategy[dict[str, str]]:
    hexadecimal = st.binary(max_size=5).map(bytes.hex)
    name = st.text(st.characters(codec="ascii", categories=["Lu"]), min_size=3, max_size=8)
    text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9)
    known = st.fixed_dictionaries(
        {},
        optional={
            "ORAROWID": st.just("AAASf9AAEAAAAINAAA"),
            "ORATAG": hexadecimal,
            "x69": hexadecimal,
            "DDL": st.just("A"),
        },
    )
    user = st.dictionaries(name.map("TK-".__add__), text, max_size=2)
    return st.builds(lambda one, other: one | other, known, user)


@st.composite
def all_runs(draw: st.DrawFn) -> Operations:
    """Return runs in which some operations are of the table with large objects, some with tokens."""
    found = draw(runs())
    with_tokens = draw(st.booleans())
    for place, op in enumerate(found):
        extra: dict[str, Any] = {"tokens": draw(tokens()) if with_tokens else {}}
        if draw(st.integers(0, 2)) == 0:
            extra |= draw(large_operations())
        found[place] = op | extra
    return found


def written(
    operations: Operations, form: TrailFormat, tables: Definitions
) -> tuple[bytes, EncodedTrail]:
    """Return a file's bytes behind the header, and its operations as they were encoded."""
    encoded = encode(batch_of(tables, operations), form, tables)
    begin = encode_metadata(tables, form, 0) if form.by_index else b""
    return begin + encoded.body.to_pybytes(), encoded


def read_again(data: bytes, form: TrailFormat, tables: Definitions) -> Operations:
    state = replace(ReaderState(), order=form.order)
    found = decode(data, tables, file_number=1, base_offset=0, state=state, finish=True)
    return operations_of(found.batch)


def records_of(data: bytes, order: ByteOrder = ByteOrder.BIG) -> list[TrailRecord]:
    found: list[TrailRecord] = []
    place = 0
    while place < len(data):
        found.append(decode_record(data, place, order=order))
        place += found[-1].length
    return found


def expected(operations: Operations, form: TrailFormat, tables: Definitions) -> Operations:
    """Return what reading gives of operations that were written in a format."""
    found = []
    for op in operations:
        before, after = dict(op["before"]), dict(op["after"])
        if form.updates is UpdateFormat.COMPACT and op["op_type"] in "UK":
            table = tables.table(op["table"])
            keys = {table.columns[i].name for i in table.keys}
            for name in [n for n in before if n in after and before[n] == after[n]]:
                del after[name]
                if name not in keys:
                    del before[name]
        first = op["tx_ind"] in "BW"
        carried = {"LOGCSN": op["csn"], "TRANID": op["tx_id"]} if first else {}
        shown = {name: text for name, text in carried.items() if text is not None}
        found.append(op | {"before": before, "after": after, "tokens": shown | op["tokens"]})
    return found
