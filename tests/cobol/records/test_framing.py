"""Files are cut into records, however they are framed and however they arrive."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from framed_files import frame
from laws import examples
from trailgate.arrays import octets
from trailgate.cobol.records import framing_kernels
from trailgate.cobol.records.framing import FrameKind, Framing, find_frames
from trailgate.cobol.records.length_rules import LengthRule, LengthTerm, RecordLengths
from trailgate.errors import DecodeError, OptionError, TrailgateError, TruncatedError

RECORDS = [b"first", b"2nd-x", b"third"]
LENGTHS = [bytes([0, len(record) + 2]) + record for record in RECORDS]
COUNTED = RecordLengths(
    (
        LengthRule(
            2,
            (
                LengthTerm(
                    name="N", offset=0, width=1, coding=framing_kernels.SIGNED_BIG, factor=2, most=9
                ),
                LengthTerm(
                    name="M",
                    offset=1,
                    width=1,
                    coding=framing_kernels.PACKED,
                    factor=1,
                    most=9,
                    shifts=(2,),
                ),
            ),
        ),
        LengthRule(5),
    ),
    places=(0,),
    values=((ord("f"),), (ord("2"),), (ord("t"),)),
    chosen=(1, 1, 1),
)
FRAMINGS = {
    "fixed": Framing(FrameKind.FIXED, length=5),
    "line": Framing(FrameKind.LINE),
    "crlf": Framing(FrameKind.LINE, delimiter=b"\r\n"),
    "rdw": Framing(FrameKind.RDW),
    "rdw-little": Framing(FrameKind.RDW, little=True),
    "rdw-without-itself": Framing(FrameKind.RDW, adjustment=4),
    "bdw": Framing(FrameKind.BDW),
    "spanned": Framing(FrameKind.SPANNED),
    "spanned-apart": Framing(FrameKind.SPANNED, little=True, adjustment=4, block_adjustment=0),
    "layout": Framing(FrameKind.LAYOUT, lengths=COUNTED),
    "rdw-twisted": Framing(FrameKind.RDW, twisted=True),
    "rdw-reversed": Framing(FrameKind.RDW, little=True, twisted=True, adjustment=4),
    "bdw-apart": Framing(FrameKind.BDW, little=True, block_little=False, block_adjustment=4),
    "bdw-twisted": Framing(FrameKind.BDW, twisted=True, block_twisted=False),
    "limited": Framing(FrameKind.RDW, least=5, most=5),
    "length-field": Framing(FrameKind.LENGTH_FIELD, field_width=2),
}


def cut(data: bytes, framing: Framing, *, finish: bool = True) -> list[bytes]:
    found = find_frames(octets(data), framing, finish=finish)
    held = data if found.data is None else found.data.tobytes()
    return [held[a:b] for a, b in zip(found.starts.tolist(), found.ends.tolist(), strict=True)]


@pytest.mark.parametrize("name", FRAMINGS)
def test_records_are_found_again(name: str) -> None:
    framing = FRAMINGS[name]
    records = LENGTHS if name == "length-field" else RECORDS

    assert cut(frame(records, framing), framing) == records


@pytest.mark.parametrize("name", FRAMINGS)
def test_an_unfinished_record_waits_and_is_an_error_at_the_end(name: str) -> None:
    framing = FRAMINGS[name]
    records = LENGTHS if name == "length-field" else RECORDS
    data = frame(records, framing)[:-3]

    waiting = cut(data, framing, finish=False)

    assert waiting == ([] if framing.kind is FrameKind.BDW else records[:2])
    if framing.kind is FrameKind.LINE:
        assert len(cut(data, framing)) == 3
    else:
        with pytest.raises(TruncatedError, match="the file ends inside a record"):
            cut(data, framing)


@pytest.mark.parametrize(
    ("data", "framing", "message"),
    [
        (b"\x00\x02\x00\x00", Framing(FrameKind.RDW), "no record descriptor word: length 2"),
        (b"\x00\x09\x01\x00abcde", Framing(FrameKind.RDW), "no record descriptor word"),
        (b"\x00\x03\x00\x00", Framing(FrameKind.BDW), "no block descriptor word"),
        (b"\x00\x0a\x00\x00\x00\x09\x00\x00ab", Framing(FrameKind.BDW), "runs over its block"),
        (
            b"\0\6\0\0ab\0\7\0\0abc",
            Framing(FrameKind.RDW, most=2),
            "of 3 bytes, .* 0 to 2 .*byte 6",
        ),
        (b"\0\6\0\0ab\0\5\0\0a", Framing(FrameKind.RDW, least=2), "of 1 bytes, .* at least 2"),
        (
            b"\0\x0a\0\0\0\6\2\0ab",
            Framing(FrameKind.SPANNED),
            "does not continue the spanned record",
        ),
        (b"\0\x10\0\0\0\6\1\0ab\0\6\0\0ab", Framing(FrameKind.SPANNED), "does not continue"),
        (b"\0\x09\0\0\0\6\0\0a", Framing(FrameKind.SPANNED), "runs over its block"),
        (b"\0\x0a\0\0\0\6\4\0ab", Framing(FrameKind.SPANNED), "no record descriptor word"),
        (b"\x00\x01\x00", Framing(FrameKind.LENGTH_FIELD, field_width=2), "before its own end"),
    ],
)
def test_a_descriptor_that_cannot_be_is_named(data: bytes, framing: Framing, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        cut(data, framing)


def test_a_large_block_has_31_bits_of_length() -> None:
    body = frame([b"x" * 30_000] * 3, Framing(FrameKind.RDW))
    block = (0x80000000 | len(body) + 4).to_bytes(4, "big") + body

    assert cut(block, Framing(FrameKind.BDW)) == [b"x" * 30_000] * 3


def test_a_framing_that_cannot_be_is_a_wrong_option() -> None:
    for framing in (
        Framing(FrameKind.FIXED),
        Framing(FrameKind.LINE, delimiter=b""),
        Framing(FrameKind.LENGTH_FIELD, field_width=3),
        Framing(FrameKind.FIXED, length=1, skip_first=-1),
        Framing(FrameKind.RDW, least=3, most=2),
    ):
        with pytest.raises(OptionError):
            framing.check()


@settings(max_examples=examples(200), deadline=None)
@example(data=b"abcdefghij", name="fixed", finish=True)
@given(st.binary(max_size=60), st.sampled_from(sorted(FRAMINGS)), st.booleans())
def test_any_bytes_give_records_or_our_error(data: bytes, name: str, finish: bool) -> None:
    try:
        found = find_frames(octets(data), FRAMINGS[name], finish=finish)
    except TrailgateError:
        assert (data, name) != (b"abcdefghij", "fixed")  # two records
        return

    assert (found.starts <= found.ends).all()
    places = found.starts if found.places is None else found.places
    assert (np.diff(places) > 0).all()
    assert found.end <= len(data)


def naive_cut(data: bytes, framing: Framing) -> list[bytes]:
    """Return the whole records of a file, one by one; stops at what cannot be."""
    order = "little" if framing.little else "big"
    records, place = [], 0
    if framing.kind is FrameKind.LINE:
        return data.split(framing.delimiter)[:-1]
    width = framing.field_width if framing.kind is FrameKind.LENGTH_FIELD else 2
    head = width if framing.kind is FrameKind.LENGTH_FIELD else 4
    while place + head <= len(data):
        length = int.from_bytes(data[place : place + width], order) + framing.adjustment  # type: ignore[arg-type]
        flags = data[place + 2 : place + 4] if framing.kind is FrameKind.RDW else b""
        if length < head or any(flags) or place + length > len(data):
            break
        begin = place if framing.kind is FrameKind.LENGTH_FIELD else place + head
        records.append(data[begin : place + length])
        place += length
    return records


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([b"\0\5\0\0x", b"\5\0\0\0y", b"\n", b"\r\n", b"ab", b"\0"])),
    st.sampled_from(["line", "crlf", "rdw", "rdw-little", "rdw-without-itself", "length-field"]),
)
def test_records_are_those_of_the_naive_reading(parts: list[bytes], name: str) -> None:
    data, framing = b"".join(parts), FRAMINGS[name]
    try:
        found = cut(data, framing, finish=False)
    except DecodeError:
        return

    assert found == naive_cut(data, framing)


@pytest.mark.parametrize("little", [True, False])
def test_a_length_beyond_all_files_is_an_unfinished_record(little: bool) -> None:
    framing = Framing(FrameKind.LENGTH_FIELD, field_width=8, little=little)

    assert cut(b"\xff" * 9, framing, finish=False) == []
