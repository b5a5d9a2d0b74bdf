"""User tokens are read beside GGS tokens; what does not fit the assumed layout is kept in hex."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trail.building import INSERT, UPDATE, cell, record, text
from trailgate.errors import EncodeError
from trailgate.model.changes import ChangeBlock
from trailgate.model.tables import Column, Definitions, Table
from trailgate.trail.format.record_header import BEFORE_IMAGE
from trailgate.trail.format.tokens import (
    GGS_TOKEN_ROWS,
    MAX_BYTES,
    MAX_NAME,
    decode_user_tokens,
    encode_user_tokens,
)
from trailgate.trail.reading.reader import decode

DEFINITIONS = Definitions((Table("S.T", (Column("ID", 64, 10, key=True),)),))
KEY = cell(0, text("k"))
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
GGS_TOKEN_NAMES = frozenset(row.name for row in GGS_TOKEN_ROWS)
PAIRS = st.lists(st.tuples(TEXT.filter(bool), TEXT), min_size=1, max_size=8)
pytestmark = pytest.mark.assumed


def maps(*records: bytes) -> list[list[tuple[str, str]]]:
    found = decode(b"".join(records), DEFINITIONS, file_number=1, base_offset=0, finish=True)
    tokens = [block.tokens for block in found.batch.blocks if block.tokens is not None]
    return [list(row) for column in tokens for row in column.to_pylist()]


def block_of(data: bytes) -> ChangeBlock:
    return decode(data, DEFINITIONS, file_number=1, base_offset=0, finish=True).batch.blocks[0]


@given(PAIRS)
def test_written_values_are_read_back(pairs: list[tuple[str, str]]) -> None:
    assert decode_user_tokens(encode_user_tokens(pairs)) == pairs


@pytest.mark.parametrize(
    "payload",
    [b"", b"name", b"name\0value", b"name\0", b"\0value\0", b"n\0\xff\0", b"n\0v\0" * 501],
)
def test_what_does_not_fit_is_not_read(payload: bytes) -> None:
    if payload:
        assert decode_user_tokens(payload) is None
        assert maps(record(INSERT, KEY, user=payload)) == [[("USER", payload.hex())]]
    assert maps(record(INSERT, KEY, user=b"A\0b\0"), record(INSERT, KEY, user=payload)) == [
        [("A", "b")],
        [("USER", payload.hex())] if payload else [],
    ]


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("", "v")], "1 to 256 bytes"),
        ([("n" * (MAX_NAME + 1), "v")], "1 to 256 bytes"),
        ([("n", "v\0")], "cannot hold a NUL .*field n"),
        ([("n", "v" * MAX_BYTES)], "at most 2000"),
    ],
)
def test_tokens_beyond_the_limits_are_not_written(
    pairs: list[tuple[str, str]], message: str
) -> None:
    with pytest.raises(EncodeError, match=message):
        encode_user_tokens(pairs)


def test_user_tokens_stand_behind_the_others_in_the_map() -> None:
    ids = [(ord("L"), b"77"), (ord("6"), b"1.2.3")]
    user = encode_user_tokens([("HOST", "vm4"), ("LOGCSN", "mine"), ("HOST", "again"), ("E", "")])

    found = maps(
        record(INSERT, KEY, trans_ind=0, tokens=ids, user=user),
        record(INSERT, KEY, trans_ind=1),
        record(INSERT, KEY, trans_ind=2, user=encode_user_tokens([("HOST", "vm5")])),
    )

    # Tokens of a record are in the order of their ids.
    assert found == [
        [
            ("TRANID", "1.2.3"),
            ("LOGCSN", "77"),
            ("HOST", "vm4"),
            ("USER:LOGCSN", "mine"),
            ("E", ""),
        ],
        [],
        [("HOST", "vm5")],
    ]


def test_of_both_records_of_an_update_the_first_counts() -> None:
    one, two = (encode_user_tokens([("WHO", name)]) for name in ("first", "second"))

    found = maps(
        record(UPDATE, KEY, image=BEFORE_IMAGE, trans_ind=0, user=one),
        record(UPDATE, KEY, trans_ind=2, user=two),
    )

    assert found == [[("WHO", "first")]]


@given(st.lists(st.none() | st.binary(min_size=1, max_size=30) | PAIRS, max_size=6))
def test_columns_agree_with_the_reading_one_by_one(
    drawn: list[bytes | list[tuple[str, str]] | None],
) -> None:
    payloads = [encode_user_tokens(one) if isinstance(one, list) else one for one in drawn]

    found = maps(*(record(INSERT, KEY, user=payload) for payload in payloads))

    for payload, row in zip(payloads, found, strict=True):
        pairs = decode_user_tokens(payload) if payload else []
        expected = [("USER", (payload or b"").hex())] if pairs is None else pairs
        named = [
            (f"USER:{name}" if name in GGS_TOKEN_NAMES else name, value) for name, value in expected
        ]
        assert dict(row) == dict(reversed(named))


def test_the_owner_and_the_name_of_a_transaction_are_columns() -> None:
    pairs: list[list[tuple[str, str]]] = [
        [("TX_OWNER", "ann"), ("TX_NAME", "nightly")],
        [("X", "1")],
        [("TX_OWNER", "bob")],
    ]
    data = b"".join(record(INSERT, KEY, trans_ind=3, user=encode_user_tokens(one)) for one in pairs)

    block = block_of(data)

    assert block.tx_owner is not None
    assert block.tx_name is not None
    assert block.tx_owner.to_pylist() == ["ann", None, "bob"]
    assert block.tx_name.to_pylist() == ["nightly", None, None]
    assert block_of(record(INSERT, KEY, trans_ind=3)).tx_owner is None
