"""Encoded AMQP messages: read as the library reads them; any bytes give a value or the reason why there is none."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

proton = pytest.importorskip("proton", reason="AMQP needs the extra amqp")

from brokers.amqp_strategies import changed, found_in, messages  # noqa: E402  they need the extra
from brokers.proton_messages import Row, received  # noqa: E402  as above
from trailgate.live.brokers.amqp.messages import received_messages  # noqa: E402  as above

BODY: Final = b"\0\x53\x77\xa1\x01b"
ANY_KIND: Final = "it is a "


def rows(*raws: bytes) -> list[Row]:
    """Return what messages of one window have; a header has one value."""
    batch = received_messages(found_in(raws), 7)
    batch.validate(full=True)
    assert batch["received"].to_pylist() == [7] * len(raws)
    found = []
    for row in batch.to_pylist():
        headers = dict(row["headers"])
        assert len(headers) == len(row["headers"])
        found.append(Row(row["id"], headers, row["body"], row["fault"]))
    return found


def library_row(raw: bytes) -> Row:
    """Return what the library reads."""
    message = proton.Message()
    message.decode(raw)
    return received(message)


def has_exact_times(raw: bytes) -> bool:
    """Return whether the library, whose times are floats of seconds, has each time to the millisecond."""
    message = proton.Message()
    message.decode(raw)
    times = message.creation_time, message.expiry_time
    return all(abs(float(one)) * 1000 < 2**53 for one in times)


def same(own: Row, library: Row) -> None:
    """Compare two readings; bodies that cannot be read are kept as they are encoded, and named as AMQP names them."""
    if library.fault is not None and ANY_KIND in library.fault:
        assert own.fault is not None
        assert ANY_KIND in own.fault
        assert own[:2] == library[:2]
    else:
        assert own == library


@given(st.lists(messages(), max_size=5))
@example([proton.Message("x" * 300, id="y" * 300, properties={"z" * 255: "w" * 256})])
def test_messages_are_read_as_the_library_reads_them(sent: list[Any]) -> None:
    raws = [one.encode() for one in sent]
    for own, raw in zip(rows(*raws), raws, strict=True):
        same(own, library_row(raw))


@given(st.lists(changed(), min_size=1, max_size=3), messages())
def test_changed_bytes_are_read_as_the_library_reads_them_or_are_a_fault(
    raws: list[bytes], whole: Any
) -> None:
    found = rows(*raws, whole.encode())
    same(found[-1], library_row(whole.encode()))
    for raw, own in zip(raws, found, strict=False):
        try:
            library = library_row(raw)
        except (proton.ProtonException, TypeError, ValueError, OverflowError):
            continue  # the last three are how the library's Python fails
        if own.fault is None and has_exact_times(raw):
            same(own, library)


@given(st.lists(st.binary(max_size=60), max_size=4))
def test_any_bytes_are_a_message_or_a_fault(raws: list[bytes]) -> None:
    assert len(rows(*raws)) == len(raws)


def data(raw: bytes) -> bytes:
    """Return a section of data."""
    return b"\0\x53\x75\xa0" + bytes([len(raw)]) + raw


def section(code: int, value: bytes) -> bytes:
    """Return a section by its number."""
    return b"\0\x53" + bytes([code]) + value


def by_name(name: bytes, value: bytes) -> bytes:
    """Return a section by its symbol."""
    return b"\0\xa3" + bytes([len(name)]) + name + value


def test_bodies_of_several_sections_of_data_are_joined() -> None:
    found = rows(data(b"one, "), data(b"two ") + data(b"") + data(b"three"), BODY)

    assert [row.body for row in found] == [b"one, ", b"two three", b"b"]
    assert [row.fault for row in found] == [None] * 3


def test_sections_are_known_by_their_symbols_and_by_long_numbers() -> None:
    properties = b"\xd0\0\0\0\x08\0\0\0\x01\xa1\x02id"
    named = by_name(b"amqp:properties:list", properties)
    named += by_name(b"amqp:data:binary", b"\xb0\0\0\0\x01x")
    numbered = b"\0\x80" + (0x73).to_bytes(8, "big") + properties + BODY

    assert [(row.id, row.body) for row in rows(named, numbered)] == [("id", b"x"), ("id", b"b")]


@pytest.mark.parametrize("again", [b"\x54\x02", b"\x40"])
def test_a_property_that_a_message_has_twice_is_a_fault(again: bytes) -> None:
    pairs = b"\xa1\x01a\xa1\x011" + b"\xa3\x01a" + again
    properties = b"\xc1" + bytes([1 + len(pairs), 4]) + pairs
    good, bad = rows(BODY, section(0x74, properties) + BODY)

    assert bad.fault == "the message has the property 'a' twice"
    assert good.fault is None


def test_annotations_are_passed_over_however_deeply_they_are_nested() -> None:
    nested = b"\x40"
    for _ in range(300):
        nested = (
            b"\0\xa3\x01n" + b"\xd0" + (4 + len(nested)).to_bytes(4, "big") + b"\0\0\0\x01" + nested
        )
    annotations = b"\xd1" + (7 + len(nested)).to_bytes(4, "big") + b"\0\0\0\x02\xa3\x01k" + nested
    (row,) = rows(section(0x72, annotations) + BODY + section(0x78, b"\xc1\x01\0"))

    assert (row.body, row.fault) == (b"b", None)


def test_descriptors_of_descriptors_end_with_the_message() -> None:
    (row,) = rows(b"\0" * 100_000)

    assert row.fault is not None


PROBLEMS: Final = {
    "a section": (b"\x53\x77\xa1\x01b", "a section that does not exist (byte 0 of 5)"),
    "its number": (section(0x79, b"\x40"), "a section that does not exist"),
    "its symbol": (by_name(b"amqp:data:string", b"\x40"), "a section that does not exist"),
    "a type": (section(0x77, b"\x57"), "a type that does not exist (byte 3 of 4)"),
    "a value's end": (section(0x77, b"\xa1\x05abc"), "a value is longer than its section"),
    "a size": (section(0x77, b"\xb1\0\0"), "a value is longer than its section"),
    "two bodies": (data(b"a") + BODY, "must not follow the one before it (byte 6 of 12)"),
    "two values": (BODY + BODY, "must not follow"),
    "a late header": (BODY + section(0x70, b"\x45"), "must not follow"),
    "a header": (section(0x70, b"\xc1\x01\0") + BODY, "not a list"),
    "data": (section(0x75, b"\xa1\x01b"), "data that is not binary"),
    "a sequence": (section(0x76, b"\xa1\x01b"), "not a list"),
    "properties": (section(0x74, b"\x45") + BODY, "not a map"),
    "half a property": (section(0x74, b"\xc1\x04\x01\xa1\x01a") + BODY, "the number of values"),
    "a number": (section(0x74, b"\xc1\x05\x01\x54\x01\x54\x01") + BODY, "the number of values"),
    "a name": (section(0x74, b"\xc1\x05\x02\x54\x01\x54\x01") + BODY, "not a string"),
    "a count": (section(0x73, b"\xc0\x02\x05\x40") + BODY, "a value is longer than its"),
    "no count": (section(0x73, b"\xc0\0") + BODY, "the number of values"),
    "bytes left": (section(0x73, b"\xc0\x03\x01\x40\x40") + BODY, "the number of values"),
    "more fields": (section(0x70, b"\xc0\x07\x06" + b"\x40" * 5 + b"\x41") + BODY, "the number"),
}


@pytest.mark.parametrize("what", PROBLEMS)
def test_a_malformed_message_is_kept_with_the_reason(what: str) -> None:
    raw, problem = PROBLEMS[what]
    good, bad, other = rows(data(b"before"), raw, BODY)

    assert bad.fault is not None
    assert problem in bad.fault
    assert bad.body == raw
    assert [(row.body, row.fault) for row in (good, other)] == [(b"before", None), (b"b", None)]


def test_the_id_of_a_malformed_message_is_known_where_it_comes_first() -> None:
    properties = section(0x73, b"\xc0\x05\x01\xa1\x02id")

    assert rows(properties + section(0x77, b"\x57"))[0].id == "id"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (b"\xc1\x01\0", "map"),
        (b"\x45", "list"),
        (b"\x54\x05", "number"),
        (b"\xe0\x02\0\x40", "array"),
        (b"\0\x54\x01\x40", "described value"),
        (b"\x74" + bytes(4), "decimal"),
    ],
)
def test_a_body_of_another_kind_is_kept_as_it_is_encoded(value: bytes, kind: str) -> None:
    (row,) = rows(section(0x77, value))

    assert row.fault == f"the body is neither text nor bytes: it is a {kind}"
    assert row.body == value


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"\xa1\x01\xff", "not UTF-8"),
        (b"\x73\0\0\xd8\0", "not UTF-8"),
        (b"\x73\0\x11\0\0", "not UTF-8"),
        (b"\x45", "a property of the message is a list"),
        (b"\x94" + bytes(16), "a property of the message is a decimal"),
    ],
)
def test_a_property_that_is_not_a_text_is_a_fault_of_its_message(
    value: bytes, problem: str
) -> None:
    properties = b"\xc1" + bytes([4 + len(value), 2]) + b"\xa1\x01a" + value
    bad, good = rows(section(0x74, properties) + BODY, BODY)

    assert bad.fault is not None
    assert problem in bad.fault
    assert good.fault is None


def test_a_field_of_the_wrong_type_is_a_fault() -> None:
    (row,) = rows(section(0x73, b"\xc0\x03\x01\x54\x05") + BODY)

    assert row.fault == "the field message-id of the message is a number"
    assert row.id is None


def test_a_name_that_is_not_utf8_is_shown_with_escapes() -> None:
    (row,) = rows(section(0x74, b"\xc1\x06\x02\xa1\x01\xff\x54\x01") + BODY)

    assert row.fault is not None
    assert row.headers["\\xff"] == "1"


def test_a_message_of_many_properties_is_whole() -> None:
    properties = {f"p{number}": number for number in range(5000)}
    (row,) = rows(proton.Message("x", properties=properties).encode())

    assert {name: row.headers[name] for name in properties} == {
        name: str(number) for name, number in properties.items()
    }


def test_a_window_of_no_messages_has_no_rows() -> None:
    assert rows() == []
