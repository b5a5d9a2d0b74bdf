"""Delimited publications as IBM's pages describe them, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from itertools import combinations

import pyarrow as pa
import pytest

from publication_strings import STRINGS, capture_of, parse_all, record, rows_of
from trailgate.columnar.code_pages import code_page
from trailgate.errors import EncodeError, OptionError
from trailgate.formats.publications.delimited_reader import _digest
from trailgate.messages.message_batch import messages_from
from trailgate.model.tables import Column, Definitions, Table

SAMPLE = (
    '10,"IBM","2006030","182318000005","TEST","EMPLOYEE","ISRT",'
    '"0000:0000:0388:4642:{more}","0000:0000:0000:0271:000c:0000:0000",'
    '"2006-06-30-18.00.52","ASNQC910",0000,'
    ',,,,,,"John","Doe","MGR","SALES",120000,12000\n'
)
EMPLOYEE = Definitions(
    (
        Table(
            "TEST.EMPLOYEE",
            (
                *(Column(n, 64, 40) for n in ("First Name", "Last Name", "Position", "Department")),
                Column("Salary", 134, 8),
                Column("Commission", 134, 8),
            ),
        ),
    )
)


@pytest.mark.parametrize("more", ["0000", "0000:0000"], ids=["V10", "V11"])
def test_the_printed_record_has_the_printed_values(more: str) -> None:
    (row,), _ = parse_all(capture_of(EMPLOYEE), [[SAMPLE.format(more=more).encode()]])

    assert (row["table"], row["op_type"], row["tx_ind"]) == ("TEST.EMPLOYEE", "I", "W")
    assert row["op_ts"] == datetime(2006, 6, 30, 18, 0, 52, tzinfo=UTC)
    assert row["tx_id"] == f"0000:0000:0388:4642:{more}"
    assert row["csn"] == f"0000:0000:0000:0271:000c:0000:0000.{row['tx_id']}"
    assert row["tx_name"] == "ASNQC910"
    assert row["before"] == {}
    assert row["after"] == {
        "First Name": "John",
        "Last Name": "Doe",
        "Position": "MGR",
        "Department": "SALES",
        "Salary": "120000",
        "Commission": "12000",
    }


def one(body: bytes, properties: str = "", tables: Definitions = STRINGS) -> dict[str, object]:
    """Return the operation of a message that has one."""
    rows, (parsed,) = parse_all(capture_of(tables, properties, full=True), [[body]])
    assert not parsed.problems
    (row,) = rows
    return row


def refused(bodies: list[bytes], properties: str = "") -> list[tuple[int, str]]:
    """Return the messages that are refused, and why."""
    parsed = capture_of(properties=properties).parse(messages_from(bodies))
    return [(problem.message, str(problem.error)) for problem in parsed.problems]


@pytest.mark.assumed
@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("", None),
        ('""', ""),
        ('"a ""b"""', 'a "b"'),
        ('"a,b"', "a,b"),
        ('"two\nlines"', "two\nlines"),
        ('"漢字"', "漢字"),
    ],
)
def test_strings_nulls_and_quotes(written: str, value: str | None) -> None:
    row = one(record(f',,"k",{written}'))

    assert row["after"] == {"K": "k", "V": value}


def test_records_may_end_in_nel() -> None:
    nel = record(',,"k","v"').replace(b"\n", b"\xc2\x85")

    rows, _ = parse_all(capture_of(properties="recorddelim=NEL"), [[nel + nel]])

    assert len(rows) == 2


@pytest.mark.parametrize("page", ["37", "1047", "1140", "273"])
def test_messages_of_a_mainframe_code_page(page: str) -> None:
    text = record(',,"Käse","ü"').decode()
    body = code_page(page).encode(pa.array([text]))[0].as_py()[:-1] + b"\x25"

    row = one(body, f"codepage={page}")

    assert row["after"] == {"K": "Käse", "V": "ü"}


def test_messages_of_a_double_byte_code_page_are_converted_whole() -> None:
    row = one(record(',,"k","漢"').decode().encode("cp932"), "codepage=cp932")
    text = record(',,"k","ソ"').decode().replace("\n", "\x85")
    mixed = code_page("930").encode(pa.array([text]))[0].as_py()

    assert row["after"] == {"K": "k", "V": "漢"}
    assert one(mixed, "codepage=930\nrecorddelim=NEL")["after"] == {"K": "k", "V": "ソ"}


def test_bytes_that_are_no_characters_of_a_double_byte_code_page_spoil_their_message() -> None:
    bodies = [record(',,"k","v"'), record(',,"k","?"').replace(b"?", b"\x81\x20")]

    ((message, text),) = refused(bodies, "codepage=cp932")

    assert (message, "not text of the code page cp932" in text) == (1, True)


BAD = record(',,"k","x?y"').replace(b"?", b"\xff")


def test_bytes_that_are_no_characters_are_an_error_of_their_field() -> None:
    ((message, text),) = refused([record(',,"a","b"'), BAD])

    assert message == 1
    assert "not characters of the code page utf-8" in text
    assert "table S.T, field V" in text
    assert "78 ff 79" in text


@pytest.mark.parametrize(
    ("policy", "after"),
    [("missing", {"K": "k"}), ("replace", {"K": "k", "V": "x\ufffdy"})],
)
def test_bytes_that_are_no_characters_spoil_their_value_alone(
    policy: str, after: dict[str, str]
) -> None:
    assert one(BAD, f"undecodable={policy}")["after"] == after


@pytest.mark.parametrize(
    ("word", "values"),
    [("ISRT", ',,"k?","v"'), ("DLET", '"k?","v",,'), ("REPL", '"k?","v","k","w"')],
)
@pytest.mark.parametrize("policy", ["missing", "replace"])
def test_a_key_that_cannot_be_read_is_never_missing_or_replaced(
    policy: str, word: str, values: str
) -> None:
    body = record(values, word=word).replace(b"?", b"\xff")

    ((_, text),) = refused([body], f"undecodable={policy}")

    assert "not characters of the code page utf-8" in text
    assert "table S.T, field K" in text
    assert "6b ff" in text


def test_a_flagged_record_is_refused_by_the_column_that_it_names() -> None:
    ((message, text),) = refused([record(',,"a","b"', flag="SALARY"), record(',,"a","b"')])

    assert (message, "error flag 'SALARY'" in text, "field SALARY" in text) == (0, True, True)


def test_a_flagged_record_is_taken_if_asked() -> None:
    row = one(record(',,"a","b"', flag="SALARY"), "takeflagged=true")

    assert row["after"] == {"K": "a", "V": "b"}


@pytest.mark.assumed
@pytest.mark.parametrize(
    ("word", "properties", "values", "kind"),
    [
        ("DLET", "", '"k","v",,', "D"),
        ("DELT", "optype.deleteval=DELT", '"k","v",,', "D"),
        ("REPL", "", '"k","v","k","w"', "U"),
        ("ISRT", "", ',,"k","w"', "I"),
    ],
)
def test_operation_words_are_properties(word: str, properties: str, values: str, kind: str) -> None:
    assert one(record(values, word=word), properties)["op_type"] == kind


LOBS = Definitions((Table("S.T", (Column("K", 64, 9, key=True), Column("V", 64, 99, lob_type=1))),))


@pytest.mark.assumed
def test_a_null_large_object_before_is_missing() -> None:
    row = one(record('"k",,"k","long"', word="REPL"), tables=LOBS)

    assert (row["before"], row["after"]) == ({"K": "k"}, {"K": "k", "V": "long"})


BYTES = Definitions((Table("S.T", (Column("K", 64, 9, key=True), Column("V", 64, 9, sub_type=4))),))


@pytest.mark.assumed
def test_bytes_are_hexadecimal_digits() -> None:
    row = one(record(',,"k","0400"'), tables=BYTES)

    assert row["after"] == {"K": "k", "V": "0400"}
    assert int.from_bytes(bytes.fromhex("0400")) == 1024


TIMES = Definitions((Table("S.T", (Column("K", 64, 9, key=True), Column("V", 192, 29))),))


@pytest.mark.assumed
@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("2026-01-31-10.11.12", "2026-01-31 10:11:12.000000000"),
        ("2026-01-31-10.11.12.1", "2026-01-31 10:11:12.100000000"),
        ("2026-01-31-10.11.12.123456", "2026-01-31 10:11:12.123456000"),
        ("2026-01-31-10.11.12.123456789000", "2026-01-31 10:11:12.123456789"),
        ("2026-01-31 10:11:12", "2026-01-31 10:11:12.000000000"),
        ("2026-01-31", "2026-01-31 00:00:00.000000000"),
    ],
)
def test_dates_and_times_of_db2(written: str, value: str) -> None:
    assert one(record(f',,"k","{written}"'), tables=TIMES)["after"] == {"K": "k", "V": value}


NUMBERS = Definitions((Table("S.T", (Column("K", 64, 9, key=True), Column("V", 134, 8, scale=2))),))


def test_numbers_have_the_decimal_point_of_the_properties() -> None:
    properties = "decimalpoint=,\nfielddelim=;"
    body = record(',,"k",1.5').replace(b",", b";").replace(b"1.5", b"1,5")

    assert one(body, properties, NUMBERS)["after"] == {"K": "k", "V": "1.50"}


@pytest.mark.parametrize("page", ["37", "1047", "1140", "1208", "273", "930", "cp932"])
@pytest.mark.parametrize("point", [".", ",", ":", "\xb7"])
def test_the_decimal_point_is_a_character_of_any_code_page(page: str, point: str) -> None:
    name = {"1208": "utf-8"}.get(page, page)
    try:
        raw = code_page(name).encode(pa.array([point]))[0].as_py()
    except EncodeError:
        raw = b""
    if len(raw) != 1:
        with pytest.raises(OptionError):
            capture_of(NUMBERS, f"codepage={page}\nfielddelim=;\ndecimalpoint={point}")
        return
    text = record(',,"k",1.5').decode().replace(",", ";").replace("1.5", f"1{point}5")
    body = code_page(name).encode(pa.array([text.rstrip("\n")]))[0].as_py()
    end = code_page(name).encode(pa.array(["|"]))[0].as_py()
    properties = f"codepage={page}\nfielddelim=;\nrecorddelim=|\ndecimalpoint={point}"

    assert one(body + end, properties, NUMBERS)["after"] == {"K": "k", "V": "1.50"}
    for other in ("K", ".", ","):
        if other != point:
            wrong = code_page(name).encode(
                pa.array([text.replace(f"1{point}5", f"1{other}5")[:-1]])
            )
            capture = capture_of(NUMBERS, properties, full=True)
            rows, (parsed,) = parse_all(capture, [[wrong[0].as_py() + end]])
            assert (rows, len(parsed.problems)) == ([], 1)


@pytest.mark.parametrize(
    ("one_of", "other"),
    list(combinations(("fielddelim", "recorddelim", "quote", "decimalpoint"), 2)),
)
@pytest.mark.parametrize("codepage", ["1208", "37"])
def test_no_two_delimiters_are_the_same(one_of: str, other: str, codepage: str) -> None:
    given = f"codepage={codepage}\n"
    with pytest.raises(OptionError, match=f"{other} and {one_of} are the same"):
        capture_of(properties=f"{given}{one_of}=|\n{other}=|")
    byte = "4F" if codepage == "37" else "7C"
    with pytest.raises(OptionError, match="are the same"):
        capture_of(properties=f"{given}{one_of}=|\n{other}=\\x{byte}")


@pytest.mark.parametrize("name", ["fielddelim", "recorddelim", "quote", "decimalpoint"])
@pytest.mark.parametrize("value", ["0", "9", "A", "z", "漢"])
def test_no_delimiter_is_a_letter_a_digit_or_of_two_bytes(name: str, value: str) -> None:
    for codepage in ("1208", "cp932"):
        with pytest.raises(OptionError):
            capture_of(properties=f"codepage={codepage}\n{name}={value}")


@pytest.mark.parametrize("content", ["auto", "row", "transaction"])
@pytest.mark.parametrize("number", ["x", "", "-1", "1.0", "0000000001", "٣"])
@pytest.mark.parametrize("split", [1, 2, 3])
def test_a_message_without_its_number_is_refused(content: str, number: str, split: int) -> None:
    bodies = [record(f',,"{at}","v"', segment=at) for at in range(3)]
    bodies[1] = bodies[1].replace(b"0001,,", f"{number},,".encode())
    batches = [bodies[at : at + split] for at in range(0, 3, split)]

    _, found = parse_all(capture_of(properties=f"content={content}"), batches)

    (first, *_) = [str(problem.error) for parsed in found for problem in parsed.problems]
    assert "the number of the message is" in first


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"RFH \0\0\0\2\0\0\0\7", "MQRFH2 header"),
        (b"\x01\x02compact", "not a publication"),
        (b'x,"IBM",1', "not a publication"),
        (record(',,"a","b"').replace(b"10,", b"1O,"), "type is '1O', not a number"),
        (b"<msg/>", "an XML message among delimited ones"),
        (b'10,"IBM",', "3 fields, but the header alone has 12"),
        (record(',,"a"'), "do not make complete columns"),
        (record(',,,,"a","b"'), "3 columns, but the table has 2"),
        (record(',"a"'), "1 columns, but the table has 2"),
        (
            record(',"b","c","d"'),
            "an insert has a before value (messages, message 0, record 1, byte",
        ),
        (record('"b","c","d",', word="DLET"), "a delete has an after value"),
        (record(',,"a","b"', tx="", lsn=""), "neither a commit LSN nor a transaction identifier"),
        (record(',,"a","b"').replace(b"PLAN", b"PL\xffN"), "record 1, byte 85, field plan_name"),
        (record(',,"a","b"').replace(b'"T"', b'"\xff"'), "record 1, byte 38, field table_name"),
        (record(',,"a","b"', table="U"), "table S.U is not in the definitions"),
        (record(',,"a","b"', word="TRNC"), "unknown optype value 'TRNC'"),
        (record(',,"a","b"').replace(b"-18.00.52", b"-25.00.52"), "not a date in the form"),
    ],
)
def test_messages_that_are_not_publications_are_named(body: bytes, problem: str) -> None:
    found = refused([record(',,"a","b"', tx="0009"), body])

    assert [message for message, _ in found] == [1]
    assert problem in found[0][1]


def test_a_header_of_mq_is_skipped() -> None:
    rfh = b"RFH " + (2).to_bytes(4) + (40).to_bytes(4) + bytes(28)

    rows, _ = parse_all(capture_of(), [[rfh + record(',,"a","b"'), record(',,"c","d"', tx="2")]])

    assert [row["after"] for row in rows] == [{"K": "a", "V": "b"}, {"K": "c", "V": "d"}]


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ("fielddelim=;\nquote=;", "quote and fielddelim are the same"),
        ("fielddelim=x", "the letter or digit x"),
        (r"fielddelim=\xC1" + "\ncodepage=37", "the letter or digit A"),
        ("quote=''", "expected one character"),
        ("quote=漢", "3 bytes in the code page"),
        ("codepage=99999", "no code page"),
    ],
)
def test_properties_that_do_not_fit_are_refused(properties: str, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        capture_of(properties=properties)


def bodies_as_array(*records: tuple[str, int, str]) -> list[bytes]:
    """Return a message for each transaction, number and values of several records."""
    return [
        b"".join(record(f',,"{value}",', tx=tx, segment=segment) for value in values)
        for tx, segment, values in records
    ]


@pytest.mark.assumed
@pytest.mark.parametrize(
    ("messages", "letters"),
    [
        ([("1", 0, "ab"), ("1", 1, "c"), ("2", 0, "d")], "BMEW"),
        ([("1", 1, "ab"), ("1", 2, "c")], "BME"),
        ([("1", 0, "ab"), ("1", 0, "ab"), ("2", 0, "d")], "BEBEW"),
        ([("1", 0, "ab"), ("1", 1, "c"), ("1", 0, "ab"), ("1", 1, "c")], "BMEBME"),
        ([("1", 0, "a"), ("1", 0, "b"), ("1", 0, "b")], "BME"),
    ],
    ids=["segments", "from one", "sent twice", "both sent twice", "rows"],
)
@pytest.mark.parametrize("split", [1, 2, 9])
def test_segments_continue_a_transaction_or_repeat_it(
    messages: list[tuple[str, int, str]], letters: str, split: int
) -> None:
    bodies = bodies_as_array(*messages)
    batches = [bodies[at : at + split] for at in range(0, len(bodies), split)]

    rows, found = parse_all(capture_of(), batches)

    assert [problem for parsed in found for problem in parsed.problems] == []
    assert "".join(str(row["tx_ind"]) for row in rows) == letters


@pytest.mark.assumed
@pytest.mark.parametrize("split", [1, 2])
def test_a_missing_segment_is_named_with_its_message(split: int) -> None:
    bodies = bodies_as_array(("1", 0, "ab"), ("1", 2, "c"))
    batches = [bodies[at : at + split] for at in range(0, len(bodies), split)]

    _, found = parse_all(capture_of(), batches)

    ((problem),) = [str(p.error) for parsed in found for p in parsed.problems]
    assert "message 0002 of a transaction follows its message 0000" in problem


@pytest.mark.assumed
@pytest.mark.parametrize("split", [1, 2, 9])
@pytest.mark.parametrize(
    "messages",
    [
        [("1", 1, "ab"), ("1", 0, "cd")],
        [("1", 1, "a"), ("1", 0, "b")],
        [("1", 0, "ab"), ("1", 1, "c"), ("1", 2, "d"), ("1", 1, "c"), ("1", 2, "d")],
        [("1", 0, "ab"), ("1", 1, "cd"), ("1", 1, "ef")],
    ],
    ids=["two", "two rows", "back to the middle", "the second one twice"],
)
def test_messages_of_a_transaction_that_are_out_of_order_are_named(
    messages: list[tuple[str, int, str]], split: int
) -> None:
    bodies = bodies_as_array(*messages)
    batches = [bodies[at : at + split] for at in range(0, len(bodies), split)]

    _, found = parse_all(capture_of(), batches)

    strings = [str(p.error) for parsed in found for p in parsed.problems]
    assert f"the transaction began with message {messages[0][1]:04}" in strings[0]


@pytest.mark.assumed
def test_the_same_row_twice_is_a_question() -> None:
    bodies = bodies_as_array(("1", 0, "a"), ("1", 0, "a"))

    ((_, text),) = refused(bodies)
    as_rows, _ = parse_all(capture_of(properties="content=row"), [bodies])
    repeated, _ = parse_all(capture_of(properties="content=transaction"), [bodies])

    assert "two messages of a transaction, numbered 0000, are the same" in text
    assert [row["tx_ind"] for row in as_rows] == ["B", "E"]
    assert [row["tx_ind"] for row in repeated] == ["W", "W"]


def test_a_batch_is_as_its_messages() -> None:
    batch = capture_of().parse(messages_from([record(',,"a","b"')]))

    assert rows_of(batch.batch) == []  # it is held: more may follow


def test_the_digest_of_a_record_is_the_same_in_every_process() -> None:
    command = f"from trailgate.formats.publications.delimited_reader import {_digest.__name__} as f; print(f(b'10'), f(b''))"
    digests = {
        subprocess.run(
            [sys.executable, "-c", command],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()[0]
        for seed in ("1", "2")
    }

    assert digests == {str(_digest(b"10"))}
    assert _digest(b"10") != _digest(b"11")
