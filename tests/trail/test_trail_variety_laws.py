"""What is always true of trails of either byte order, with indexes, fragments and large objects."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laws import chance, examples, sampled
from oracles import trail_naive as naive
from trail.batches import compared, operations_of, unscaled
from trail.building import (
    BIG,
    FULL_UPDATE,
    INSERT,
    KEY_UPDATE,
    LITTLE,
    LONG_KEY_UPDATE,
    UNIFIED,
    UNIFIED_KEY,
    cell,
    piece,
    record,
    records_of,
    table_record,
    text,
)
from trail.operation_strategies import DEFINITIONS, runs
from trailgate.errors import TrailgateError
from trailgate.model.operations_table import to_operations
from trailgate.model.tables import Column, Definitions, Table
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.reading.reader import ReaderState, decode

MODEST = settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
Operations = list[dict[str, Any]]
NOTHING = Definitions(())
ANY_FORM: list[tuple[int | None, int]] = [(None, 0)]
SIDES = ("before", "after")
FORMS: dict[str, list[tuple[int | None, int]]] = {
    "U": [(None, 0), (UNIFIED, 2), (UNIFIED, 4)],
    "K": [(KEY_UPDATE, 2), (LONG_KEY_UPDATE, 4), (UNIFIED_KEY, 2), (UNIFIED_KEY, 4)],
}


def read(data: bytes, order: ByteOrder, definitions: Definitions = DEFINITIONS) -> Operations:
    state = ReaderState(order=order)
    found = decode(data, definitions, file_number=1, base_offset=0, state=state, finish=True)
    assert found.consumed == len(data)
    return operations_of(found.batch)


@st.composite
def trails(draw: st.DrawFn) -> tuple[bytes, ByteOrder, bool, Operations]:
    """Return a trail, its byte order, whether its tables are in its metadata, its operations."""
    operations = draw(runs())
    order, indexed = draw(st.sampled_from([BIG, LITTLE])), draw(st.booleans())
    body, known = b"", []
    for operation in operations:
        table = DEFINITIONS.table(operation["table"])
        if indexed and table not in known:
            known.append(table)
            body += table_record(table, len(known), order)
        names = {"table_index": known.index(table) + 1} if indexed else {"name": table.name}
        io_type, width = draw(st.sampled_from(FORMS.get(operation["op_type"], ANY_FORM)))
        large = draw(st.none() | st.tuples(st.integers(0, 1), st.integers(1, 9)))
        form = {"names": names, "io_type": io_type, "width": width, "large": large}
        form["cut"] = draw(st.sampled_from([7, 40, 60_000]))
        body += b"".join(records_of(operation, table, form, order))
    return body, order, indexed, operations


def unscaled_images(operations: Operations) -> Operations:
    names = ("op_type", "table", "op_ts")
    return [
        {name: op[name] for name in names}
        | {side: {n: unscaled_named(op, n, v) for n, v in op[side].items()} for side in SIDES}
        for op in operations
    ]


def unscaled_named(operation: dict[str, Any], name: str, value: Any) -> Any:
    table = DEFINITIONS.table(operation["table"])
    return unscaled(table.columns[table.index(name)], value)


@pytest.mark.assumed
@MODEST
@given(trails())
def test_a_trail_of_any_form_reads_as_its_operations(
    trail: tuple[bytes, ByteOrder, bool, Operations],
) -> None:
    body, order, indexed, operations = trail

    found = read(body, order, NOTHING if indexed else DEFINITIONS)

    assert compared(found) == compared(operations)


@pytest.mark.assumed
@MODEST
@given(trails())
def test_columns_agree_with_the_naive_reading(
    trail: tuple[bytes, ByteOrder, bool, Operations],
) -> None:
    body, order, _, _ = trail

    expected = naive.read_operations(body, DEFINITIONS, order.value)

    assert unscaled_images(read(body, order)) == expected


@pytest.mark.assumed
@MODEST
@given(trails(), st.data())
def test_how_the_stream_is_cut_changes_nothing(
    trail: tuple[bytes, ByteOrder, bool, Operations], data: st.DataObject
) -> None:
    body, order, _, _ = trail
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=5)))
    state, done, found = ReaderState(order=order), 0, []

    for cut in [*cuts, len(body)]:
        chunk = body[done:cut]
        part = decode(chunk, DEFINITIONS, file_number=1, base_offset=done, state=state)
        found += operations_of(part.batch)
        state, done = part.state, done + part.consumed

    assert done == len(body)
    assert found == read(body, order)


SMALL = Table("S.SMALL", (Column("ID", 134, 8, key=True), Column("NOTE", 64, 50)))


def small_trail(order: ByteOrder) -> bytes:
    """Return a trail of an insert in fragments, a large object, a key and a unified update."""
    by = {"table_index": 1, "order": order}
    identity = cell(0, b"\0\0" + (7).to_bytes(8, "big"), order)
    whole = identity + cell(1, text("fragments of text", order), order)
    keys = order.raw(len(identity), 2) + identity + identity
    unified = order.raw(len(identity), 4) + identity + whole
    ids = [(ord("L"), b"77"), (ord("6"), b"1.2.3")]
    return b"".join(
        [
            table_record(SMALL, 1, order),
            record(INSERT, whole[:9], continued=1, trans_ind=0, tokens=ids, **by),
            record(161, whole[9:], trans_ind=1, **by),
            record(FULL_UPDATE, identity + cell(1, text(None), order), trans_ind=1, **by),
            record(116, piece(1, (2, 2, 3), b"ge", order), trans_ind=1, **by),
            record(116, piece(1, (2, 1, 0), b"lar", order), trans_ind=1, user=b"A\0b\0", **by),
            record(KEY_UPDATE, keys, trans_ind=1, **by),
            record(UNIFIED, unified, trans_ind=2, **by),
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("order", list(ByteOrder))
def test_every_changed_byte_gives_operations_or_our_error(order: ByteOrder) -> None:
    good = small_trail(order)
    assert len(read(good, order)) == 4
    values = chance("values of bytes")
    for at in sampled(range(len(good)), len(good) // 4, f"bytes {order}"):
        for value in {0xFF, good[at] ^ 1, values.randrange(256)}:
            body = good[:at] + bytes((value,)) + good[at + 1 :]
            with contextlib.suppress(TrailgateError):
                decoded = decode(
                    body,
                    NOTHING,
                    file_number=1,
                    base_offset=0,
                    state=ReaderState(order=order),
                    finish=bool(at % 2),
                )
                operations_of(decoded.batch)
                to_operations(decoded.batch)


@MODEST
@given(trails().filter(lambda trail: bool(trail[0])), st.data())
def test_changed_bytes_give_operations_or_our_error(
    trail: tuple[bytes, ByteOrder, bool, Operations], data: st.DataObject
) -> None:
    body, order, indexed, _ = trail
    changed = bytearray(body)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    definitions = NOTHING if indexed else DEFINITIONS
    state = ReaderState(order=order)
    assert decode(body, definitions, file_number=1, base_offset=0, state=state).batch.rows
    with contextlib.suppress(TrailgateError):
        decoded = decode(bytes(changed), definitions, file_number=1, base_offset=0, state=state)
        to_operations(decoded.batch)


@MODEST
@given(st.binary(max_size=200), st.sampled_from([INSERT, 116, 161, 170, 134, 160]), st.booleans())
def test_any_data_area_gives_operations_or_our_error(
    data: bytes, io_type: int, little: bool
) -> None:
    order = LITTLE if little else BIG
    first = record(INSERT, cell(0, text("a", order), order), order=order, trans_ind=0)
    body = first + record(io_type, data, order=order, trans_ind=2, user=data or None)
    known = Definitions((Table("S.T", SMALL.columns),))
    identity = cell(0, b"\0\0" + (7).to_bytes(8, "big"), order)
    assert read(record(INSERT, identity, order=order, trans_ind=3), order, known)
    for definitions in (NOTHING, known):
        with contextlib.suppress(TrailgateError):
            read(body, order, definitions)
