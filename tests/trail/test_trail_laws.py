"""What is always true of trail records, whatever the operations."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from laws import examples
from oracles import trail_naive as naive
from trail.batches import batch_of, compared, naive_records, operations_of
from trail.operation_strategies import DEFINITIONS, runs
from trailgate.errors import TrailgateError, TruncatedError
from trailgate.trail.format.file_header import FileHeader, decode_header, encode_header
from trailgate.trail.reading.reader import ReaderState, decode
from trailgate.trail.records.framing import find_records, resync
from trailgate.trail.writing.writer import encode

MODEST = settings(
    max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
Operations = list[dict[str, Any]]


def read(data: bytes, *, finish: bool = True) -> Operations:
    found = decode(
        data, DEFINITIONS, file_number=7, base_offset=100, state=ReaderState(), finish=finish
    )
    return operations_of(found.batch)


@MODEST
@given(runs())
def test_written_values_are_read_back(operations: Operations) -> None:
    encoded = encode(batch_of(DEFINITIONS, operations))

    assert compared(read(encoded.body.to_pybytes())) == compared(operations)
    assert len(encoded.starts) == len(operations) + 1
    assert int(encoded.starts[-1]) == encoded.body.size


@MODEST
@given(runs())
def test_positions_are_the_starts_of_operations(operations: Operations) -> None:
    encoded = encode(batch_of(DEFINITIONS, operations))

    positions = [op["position"] for op in read(encoded.body.to_pybytes())]

    assert positions == [f"{7:010d}{100 + start:010d}" for start in encoded.starts[:-1].tolist()]


@MODEST
@given(runs())
def test_columns_write_what_the_oracle_writes(operations: Operations) -> None:
    encoded = encode(batch_of(DEFINITIONS, operations))

    records = naive_records(DEFINITIONS, operations)
    expected = b"".join(naive.write_record(r, DEFINITIONS.table(r["table"])) for r in records)

    assert encoded.body.to_pybytes() == expected
    assert naive.read_records(expected, DEFINITIONS) == records


@MODEST
@given(runs(), st.data())
def test_how_the_stream_is_cut_changes_nothing(operations: Operations, data: st.DataObject) -> None:
    body = encode(batch_of(DEFINITIONS, operations)).body.to_pybytes()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=5)))
    state, done, found = ReaderState(), 0, []

    for cut in [*cuts, len(body)]:
        chunk = body[done:cut]
        part = decode(chunk, DEFINITIONS, file_number=7, base_offset=100 + done, state=state)
        found += operations_of(part.batch)
        state, done = part.state, done + part.consumed

    assert done == len(body)
    assert found == read(body)


@MODEST
@given(runs())
def test_reading_can_begin_at_any_record(operations: Operations) -> None:
    """From the first record at or behind an offset on, the operations are the same."""
    encoded = encode(batch_of(DEFINITIONS, operations))
    body = np.frombuffer(encoded.body, np.uint8)
    offsets = find_records(body).offsets.tolist()

    for start in offsets:
        assert resync(body, start) == start
    for before, after in itertools.pairwise(offsets):
        assert resync(body, before + 1) == after


@MODEST
@example(data=encode_header(FileHeader()), finish=True)
@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_give_operations_or_our_error(data: bytes, finish: bool) -> None:
    array = np.frombuffer(data, np.uint8)
    if data == encode_header(FileHeader()):
        assert decode_header(data)
    for act in (
        lambda: read(data, finish=finish),
        lambda: decode_header(data),
        lambda: find_records(array, finish=finish),
        lambda: resync(array, 0),
    ):
        try:
            act()
        except TrailgateError:
            continue


@settings(max_examples=examples(75), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(runs().filter(bool), st.data())
def test_a_changed_byte_gives_operations_or_our_error(ops: Operations, data: st.DataObject) -> None:
    body = bytearray(encode(batch_of(DEFINITIONS, ops)).body.to_pybytes())
    assert read(bytes(body))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(TrailgateError):
        read(bytes(body))


@MODEST
@given(st.data())
def test_a_changed_header_gives_a_value_or_our_error(data: st.DataObject) -> None:
    header = bytearray(encode_header(FileHeader()))
    assert decode_header(bytes(header))
    for _ in range(data.draw(st.integers(1, 4))):
        header[data.draw(st.integers(0, len(header) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(TrailgateError):
        decode_header(bytes(header))


@MODEST
@given(runs().filter(bool), st.data())
def test_a_cut_stream_is_not_an_error_until_it_is_finished(
    operations: Operations, data: st.DataObject
) -> None:
    encoded = encode(batch_of(DEFINITIONS, operations))
    cut = data.draw(st.integers(0, encoded.body.size - 1))
    body = encoded.body.to_pybytes()[:cut]

    found = read(body, finish=False)

    whole = int(np.searchsorted(encoded.starts, cut, "right")) - 1
    complete = find_records(np.frombuffer(body, np.uint8)).end
    if whole and operations[whole - 1]["tx_ind"] in "BM" and complete == encoded.starts[whole]:
        whole -= 1  # pieces of it may follow
    assert compared(found) == compared(operations[:whole])
    if cut not in encoded.starts.tolist():
        with pytest.raises(TruncatedError):
            read(body)


@MODEST
@given(runs())
def test_a_batch_of_sliced_columns_writes_the_same(operations: Operations) -> None:
    """Arrow columns that begin inside their buffers are read from where they begin."""
    whole = batch_of(DEFINITIONS, operations + operations)
    if not whole.blocks:
        return
    block = whole.blocks[0]
    half = len(block) // 2
    rows = np.arange(half, 2 * half)

    taken = encode(type(whole)([sliced(block, half)], half))

    copied = block.take(rows)
    object.__setattr__(copied, "order", np.arange(half))
    assert taken.body.equals(encode(type(whole)([copied], half)).body)


def sliced(block: Any, start: int) -> Any:
    from trailgate.trail.writing import writer  # noqa: PLC0415 - its slicing is what is tested

    part = writer._slice(block, start, len(block))
    object.__setattr__(part, "order", np.arange(len(block) - start))
    assert isinstance(part.csn, pa.Array)
    return part
