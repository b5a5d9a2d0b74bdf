"""Bad bytes and bad values are named with their place, the bytes and what to try."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from trail.batches import batch_of
from trailgate.errors import DecodeError, EncodeError
from trailgate.model.tables import Column, Definitions, Table
from trailgate.trail.format.record_types import (
    OP_TYPE_OF,
    RECORD_TYPES,
    ROLE_OF,
    ImagePrefix,
    RecordRole,
)
from trailgate.trail.reading.reader import ReaderState, decode
from trailgate.trail.records.framing import find_records, resync
from trailgate.trail.writing.writer import encode

COLUMNS = (
    Column("ID", 134, 8, key=True),
    Column("NAME", 64, 20),
    Column("CODE", 0, 4),
    Column("AT", 192, 19),
    Column("SMALL", 130, 2),
    Column("AMOUNT", 134, 8, scale=2),
    Column("FLOAT", 141, 8),
)
DEFINITIONS = Definitions((Table("S.T", COLUMNS), Table("S.U", COLUMNS)))
ROW: dict[str, Any] = {
    "table": "S.T",
    "op_type": "I",
    "op_ts": 0,
    "tx_ind": "W",
    "tx_id": "1.2.3",
    "csn": "77",
    "before": {},
    "after": {"ID": 1, "NAME": "abc"},
}
ROW_BYTES = 4 + 4 + 34 + 4  # G, H, GHDR, name and NUL of S.T
DATA_AT = ROW_BYTES + 4


def written(**changes: Any) -> bytes:
    return bytes(encode(batch_of(DEFINITIONS, [ROW | changes])).body.to_pybytes())


def read(data: bytes) -> Any:
    return decode(data, DEFINITIONS, file_number=1, base_offset=1000, state=ReaderState())


def patched(data: bytes, offset: int, text: str) -> bytes:
    raw = bytes.fromhex(text)
    return data[:offset] + raw + data[offset + len(raw) :]


@pytest.mark.parametrize(
    ("offset", "raw", "message"),
    [
        (0, "46", "must begin with 47 01 .*byte 1236"),
        (4, "49", "begin with its header .*byte 1118"),
        (8, "44", "header must begin with 45 .*byte 1118"),
        (9, "0C", "length does not fit its table index"),
        (9, "00", "data are not a list of columns, and the widths .* not known .*table S.T"),
        (11, "42", "type and its image .A or B. contradict"),
        (14, "01", "type 1 .TMFAbort. is not an operation"),
        (14, "84", "type 132 .SequenceOp. has the partition byte of a data record"),
        (14, "A0", "type 160 .DDLOP. has the partition byte"),
        (14, "97", "type 151 .RestartOK. has the partition byte"),
        (14, "CD", "type 205 .GGSComment. has the partition byte"),
        (14, "AA", "type 170 .Metadata. has the partition byte"),
        (14, "74", "a piece does not follow the change"),
        (14, "02", "type 2 .TMFCommit. has the partition byte of a data record"),
        (14, "F8", "type 248 .unknown. is not an operation .*logdump"),
        (36, "07", ""),
        (ROW_BYTES + 3, "20", "data token does not agree with the header"),
        (DATA_AT, "00 09", "column index 9 in a table of 7 .*table S.T"),
        (DATA_AT + 2, "FF FF", "runs over its data area"),
        (DATA_AT + 2, "00 01", "no null indicator .*field ID"),
        (DATA_AT + 4, "00 01", "00 00 or ff ff was expected .*table S.T, field ID, bytes 00 01"),
        (DATA_AT + 14, "00 00", "a column appears twice .*field ID"),
        (DATA_AT + 14, "00 06", "layout .* is not documented"),
        (DATA_AT + 18, "00 01", "length does not agree with its value .*field NAME"),
        (DATA_AT + 22, "FF", "not UTF-8 .*field NAME, bytes"),
    ],
)
def test_a_bad_byte_is_named_with_its_place(offset: int, raw: str, message: str) -> None:
    good = written()
    if not message:
        # trail format §5: with TransInd beyond 3, byte 24 of GHDR holds it.
        found = read(patched(good, offset, raw) + written())
        assert found.batch.blocks[0].tx_ind[0] == ord("B")
        return
    with pytest.raises(DecodeError) as caught:
        read(patched(good, offset, raw) if raw == "74" else good + patched(good, offset, raw))
    assert caught.match(
        message.replace("1236", str(1000 + len(good))).replace("1118", str(1000 + len(good)))
    )
    assert (caught.value.where.offset or 0) >= 1000 + len(good) * (raw != "74")


@pytest.mark.parametrize(
    ("after", "message"),
    [
        ({"SMALL": 1}, ""),
        ({"CODE": "abcde"}, "longer than 4 .*table S.T, field CODE, text 'abcde'"),
        ({"AT": "2024-01-02"}, "19 characters was expected .*field AT"),
        ({"AT": "2024-01-02T03:04:05"}, "blank in between were expected .*field AT"),
        ({"AMOUNT": Decimal("92233720368547758.08")}, "out of the range of BIN64_S .*AMOUNT"),
        ({"FLOAT": "1"}, "type DOUBLE .141. is not documented .*field FLOAT"),
    ],
)
def test_a_value_that_cannot_be_written_is_named(after: dict[str, Any], message: str) -> None:
    if not message:
        assert written(after=after)
        return
    with pytest.raises(EncodeError, match=message):
        written(after=after)


def test_a_small_integer_out_of_range_is_named() -> None:
    with pytest.raises(EncodeError, match=r"40000 is out of the range of BIN16_S .*field SMALL"):
        written(after={"SMALL": 40_000})


def test_a_lone_before_image_is_an_error() -> None:
    update = written(op_type="U", before={"ID": 1}, after={"ID": 1})
    first = find_records(np.frombuffer(update, np.uint8)).lengths[0]
    with pytest.raises(DecodeError, match="must be followed by the after image"):
        read(update[:first] + written())


def test_a_before_image_of_another_table_does_not_pair() -> None:
    update = written(op_type="U", before={"ID": 1}, after={"ID": 1})
    first = find_records(np.frombuffer(update, np.uint8)).lengths[0]
    other = written(table="S.U", op_type="U", before={"ID": 1}, after={"ID": 1})
    with pytest.raises(DecodeError, match="must be followed by the after image"):
        read(update[:first] + other[first:])


def test_a_record_inside_a_value_is_data() -> None:
    """Bytes that look like a record, in the middle of one, are not taken for one."""
    inner = written(after={"NAME": "seen"}, op_ts=-210866760000000000)
    name = "".join(chr(b) for b in inner if b < 128)
    fake = b"G\x01\x00\x10" + bytes(8) + b"Z\x01\x00\x10"
    rows = [written(after={"NAME": fake.decode() * n + name}) for n in range(1, 40)]

    found = find_records(np.frombuffer(b"".join(rows), np.uint8))

    assert found.lengths.tolist() == [len(row) for row in rows]


def test_resync_passes_over_what_only_looks_like_a_record() -> None:
    fake = b"G\x01\x00\x10" + bytes(8) + b"Z\x01\x00\x10"
    row = written(after={"NAME": fake.decode()})
    data = np.frombuffer(row * 6, np.uint8)

    assert resync(data, 1) == len(row)
    assert resync(data, 5 * len(row) + 1) == -1


def test_ids_are_null_when_reading_began_inside_the_transaction() -> None:
    middle, last = (written(tx_ind=ind) for ind in "ME")

    block = read(middle + last + written()).batch.blocks[0]

    assert block.tx_id.to_pylist() == [None, None, "1.2.3"]
    assert block.csn.to_pylist() == [None, None, "77"]


def test_an_unknown_token_is_kept_in_hex() -> None:
    good = written()
    place = good.index(b"6\0\0\x05" + b"1.2.3")
    data = patched(good, place, "69")

    tokens = read(data).batch.blocks[0].tokens.to_pylist()

    assert tokens == [[("LOGCSN", "77"), ("x69", "312e322e33")]]


def test_user_tokens_are_passed_over() -> None:
    good = written()
    user = b"U\0\0\x03abc"
    length = (len(good) + len(user)).to_bytes(2, "big")
    data = good[:2] + length + good[4:-4] + user + b"Z\x01" + length

    assert read(data).batch.rows == 1


def test_every_change_makes_an_operation_and_nothing_else_does() -> None:
    for row in RECORD_TYPES.values():
        assert bool(row.op_type) == (row.role is RecordRole.CHANGE)
        assert OP_TYPE_OF[row.code] == row.op_type
        assert row.prefix is ImagePrefix.NONE or row.image == "A"
    assert not ROLE_OF[[code for code in range(256) if code not in RECORD_TYPES]].any()


@pytest.mark.parametrize("change", [lambda d: d[:-1], lambda d: d[: len(d) // 2]])
def test_an_unfinished_record_is_not_there_yet(change: Callable[[bytes], bytes]) -> None:
    good = written()

    found = read(good + change(good))

    assert (found.batch.rows, found.consumed) == (1, len(good))


def test_the_tokens_of_a_before_image_that_waits_are_not_given_to_another_operation() -> None:
    update = written(op_type="U", before={"ID": 1}, after={"ID": 1})
    first = find_records(np.frombuffer(update, np.uint8)).lengths[0]
    middle = written(tx_ind="M", tx_id=None, csn=None)

    found = read(middle + update[:first])

    assert found.consumed == len(middle)
    assert found.batch.blocks[0].tokens.to_pylist() == [[]]


def test_a_redo_tag_is_shown_in_hex() -> None:
    good = written()
    tag = b"t\0\0\x02\xff\x01"
    place = good.index(b"T\0\0")
    length = (len(good) + len(tag)).to_bytes(2, "big")
    tokens = b"T\0\0" + bytes((good[place + 3] + len(tag),)) + tag + good[place + 4 : -4]
    data = good[:2] + length + good[4:place] + tokens + b"Z\x01" + length

    assert ("ORATAG", "ff01") in read(data).batch.blocks[0].tokens.to_pylist()[0]
