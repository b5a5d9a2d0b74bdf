"""What is proposed from a message is what a capture takes; where nothing can be seen, that is the error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import trailgate
from laws import examples
from trailgate.cli.main import run
from trailgate.errors import TrailgateError
from trailgate.jobs.proposals import proposal
from trailgate.jobs.proposals.drafts import FILL_IN, propose_date_format, set_up_capture
from trailgate.messages.message_batch import messages_from

DELIMITED = """\
I,GG.ORDERS,2026-01-05 09:00:00,T-1,NULL,1,NULL,"a, b"
U,GG.ORDERS,2026-01-05 09:00:00,T-1,1,1,"a, b",c
D,GG.ORDERS,2026-01-05 09:00:00,T-1,1,NULL,c,NULL
"""
XML = """\
<transaction ts="2026-01-05T09:00:00" id="T-1">
  <operation table="GG.ORDERS" optype="I">
    <column name="ID"><aftervalue>1</aftervalue></column>
    <column name="WHAT"><aftervalue>a, b</aftervalue></column>
  </operation>
  <operation table="GG.ORDERS" optype="U">
    <column name="ID"><beforevalue>1</beforevalue><aftervalue>1</aftervalue></column>
    <column name="WHAT"><beforevalue>a, b</beforevalue><aftervalue>c</aftervalue></column>
  </operation>
  <operation table="GG.ORDERS" optype="D">
    <column name="ID"><beforevalue>1</beforevalue></column>
    <column name="WHAT"><beforevalue>c</beforevalue></column>
  </operation>
</transaction>
"""
NAMED = """\
<feed><tx at="2026-01-05 09:00:00"><insert table="ORDERS"><after><ID>1</ID><WHAT>a, b</WHAT></after></insert>
<update table="ORDERS"><before><ID>1</ID><WHAT>a, b</WHAT></before><after><ID>1</ID><WHAT>c</WHAT></after></update>
<delete table="ORDERS"><before><ID>1</ID><WHAT>c</WHAT></before></delete></tx></feed>
"""
PLAIN = """\
<orders sent="2026-01-05 09:00:00">
  <order id="1"><customer>ANN</customer><line><no>1</no></line><line><no>2</no></line></order>
  <order id="2"><customer>BOB</customer><line><no>1</no></line></order>
</orders>
"""


def propose(*bodies: bytes) -> str:
    return proposal.propose(bodies).text


def captured(folder: Path, message: str) -> list[dict[str, Any]]:
    """Return the operations of a trail, captured from a message by what is proposed from it, as it is."""
    (folder / "messages").mkdir()
    (folder / "messages" / "1").write_text(message)
    (folder / "p.properties").write_text(propose(message.encode()))
    line = ["--properties", str(folder / "p.properties"), "--from", str(folder / "messages")]
    more = ["--update-befores", "--no-compress-deletes", "--no-compress-updates"]
    assert run(["capture", *line, "--to", str(folder / "ot"), *more]) == 0
    return [
        {"table": row["table"], "op": row["op_type"], "time": str(row["op_ts"])[:19]}
        | {name: dict(row[name] or ()) for name in ("before", "after")}
        for batch in trailgate.read_trail(str(folder / "ot"))
        for row in batch.to_pylist()
    ]


@pytest.mark.parametrize(
    ("message", "table", "names"),
    [
        (DELIMITED, "GG.ORDERS", ("COL1", "COL2")),
        (XML, "GG.ORDERS", ("ID", "WHAT")),
        (NAMED, "MY.ORDERS", ("ID", "WHAT")),
    ],
)
def test_a_message_gives_its_operations_by_what_is_proposed_from_it(
    tmp_path: Path, message: str, table: str, names: tuple[str, str]
) -> None:
    found = captured(tmp_path, message)

    first, second = (dict(zip(names, values, strict=True)) for values in ("1a", "1c"))
    first[names[1]] = "a, b"
    alike = {"table": table, "time": "2026-01-05 09:00:00"}
    assert found == [
        alike | {"op": "I", "before": {}, "after": first},
        alike | {"op": "U", "before": first, "after": second},
        alike | {"op": "D", "before": second, "after": {}},
    ]


def test_repeated_elements_are_rows_of_tables_and_what_is_not_known_is_named(
    tmp_path: Path,
) -> None:
    found = captured(tmp_path, PLAIN)

    assert [(row["table"], row["after"]) for row in found] == [
        ("MY.ORDER", {"id": "1", "customer": "ANN"}),
        ("MY.LINE", {"no": "1"}),
        ("MY.LINE", {"no": "2"}),
        ("MY.ORDER", {"id": "2", "customer": "BOB"}),
        ("MY.LINE", {"no": "1"}),
    ]
    text = propose(PLAIN.encode())
    assert f"# {FILL_IN}no operation types were seen" in text
    assert f"# {FILL_IN}no table's name was seen" in text


def test_properties_of_delimited_messages_are_proposed() -> None:
    lines = propose(DELIMITED.encode()).splitlines()

    assert "delim.header=optype,tablename,ts,tx" in lines
    assert 'delim.quote="' in lines
    assert "delim.nullindicator=NULL" in lines
    assert "delim.hasbefores=true" in lines
    assert "delim.timestamp.format=YYYY-MM-DD HH:MI:SS" in lines
    assert not any(FILL_IN in line for line in lines)


@pytest.mark.parametrize("delimiter", [";", "|", "\t", "\x01", "||", "~", "|~|"])
@pytest.mark.parametrize("words", [("I", "D"), ("insert", "delete"), ("ISRT", "DLET")])
def test_delimiters_and_words_of_operations_are_seen(
    delimiter: str, words: tuple[str, str]
) -> None:
    rows = [(words[0], "A.B", "1", "x"), (words[1], "A.B", "2", "y, z")]
    message = "\n".join(map(delimiter.join, rows)).encode()

    parsed = set_up_capture(propose(message)).parse(messages_from([message]))

    assert not parsed.problems
    operations = parsed.operations().to_pylist()
    assert [row["op_type"] for row in operations] == ["I", "D"]
    assert dict(operations[0]["after"]) == {"COL1": "1", "COL2": "x"}


def test_names_of_columns_in_records_are_proposed() -> None:
    message = b"I|A.B|ID|1|WHAT|x\nI|A.B|ID|2|WHAT|y\n"

    parsed = set_up_capture(propose(message)).parse(messages_from([message]))

    assert [dict(row["after"]) for row in parsed.operations().to_pylist()] == [
        {"ID": "1", "WHAT": "x"},
        {"ID": "2", "WHAT": "y"},
    ]


def test_properties_missing_from_a_message_are_marked_to_fill_in() -> None:
    lines = propose(b"1|x|y\n2|x|z\n").splitlines()

    assert lines[0].startswith(f"# {FILL_IN}a capture of the message stops")
    assert "delim.optype=$OPTYPE" in lines
    assert "delim.schemaandtable=$TABLE" in lines


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (b"", "the message is empty"),
        (b"  \n", "the message is empty"),
        (b'{"op": ', "not JSON"),
        (
            b'{"op": "I", "table": "A", "data": {"a": 1}}{"op": "I", "table": "B", "data": {"a": 1}}',
            "the messages are for the tables A, B",
        ),
        (b'{"a": "x"}', "no member of the JSON documents has operation types"),
        (b"<a><b></a>", "mismatched tag"),
        (b"no delimiter at all", "no delimiter occurs"),
        (b"a|b\nc\n", "no delimiter occurs"),
        ("I,ü".encode("latin-1"), "not UTF-8"),
        (b"<!DOCTYPE a><a/>", "document type"),
    ],
)
def test_what_nothing_is_seen_of_is_an_error(message: bytes, problem: str) -> None:
    with pytest.raises(TrailgateError, match=problem):
        propose(message)


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ("2026-01-05 09:00:00", "YYYY-MM-DD HH:MI:SS"),
        ("2026-01-05:09:00:00.123", "YYYY-MM-DD:HH:MI:SS.FFF"),
        ("2026-01-05T09:00:00", "YYYY-MM-DDTHH:MI:SS"),
        ("2026-01-05-09.00.00.123456", "YYYY-MM-DD-HH.MI.SS.FFFFFF"),
        ("25.12.2026", "DD.MM.YYYY"),
        ("12/25/2026 09:00:00", "MM/DD/YYYY HH:MI:SS"),
        ("25/12/2026", "DD/MM/YYYY"),
        ("05-JAN-26", "DD-MMM-YY"),
        ("2026-13-05", ""),
        ("2026-01-05T09:00:00Z", "YYYY-MM-DDTHH:MI:SSZ"),
        ("2026-01-05T09:00:00.123456Z", "YYYY-MM-DDTHH:MI:SS.FFFFFFZ"),
        ("2026-01-05T09:00:00+02:00", ""),
        ("10:20", ""),
    ],
)
def test_the_format_of_a_time_is_seen(value: str, form: str) -> None:
    assert propose_date_format([value]) == form


def test_the_documented_proposal_is_what_is_proposed() -> None:
    page = (Path(__file__).parents[2] / "docs/howto/browse.md").read_text()
    message, text = (part.partition("END\n```")[0] for part in page.split("<<'END'\n")[1:])

    assert propose(message.encode()) == text


PIECES = st.sampled_from(
    ["I", "U", "A.B", "AB", "1", "", "NULL", "2026-01-05", '"', "'", ",", "|", "||", "\n", "\r\n"]
)
ELEMENTS = st.recursive(
    st.sampled_from(["", "1", "I", "A.B", "2026-01-05"]),
    lambda below: st.lists(
        st.tuples(st.sampled_from(["a", "tx", "insert", "before", "col", "x.y"]), below), max_size=4
    ),
    max_leaves=12,
)
ATTRIBUTES = st.sampled_from(
    ["", ' id="1"', ' op="I"', ' table="A.B"', ' name="N"', ' ts="2026-01-05"']
)


def markup(content: Any, attributes: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(
        f"<{name}{attributes()}>{markup(below, attributes)}</{name}>" for name, below in content
    )


READ = (b"I,A.B,1,x", b"<root><row table='A.B' op='I'><id>1</id></row></root>")


def parses_or_is_refused(message: bytes) -> None:
    try:
        text = propose(message)
    except TrailgateError:
        assert message not in READ
        return
    capture = set_up_capture(text)
    assert propose(message) == text
    if FILL_IN not in text:
        assert not capture.parse(messages_from([message])).problems


@settings(max_examples=examples(200))
@given(st.lists(PIECES, max_size=40).map("".join))
@example("I,A.B\nI,A.B\n")
@example("I,A.B,1,x")
def test_any_text_gives_properties_that_are_read_or_our_error(text: str) -> None:
    parses_or_is_refused(text.encode())


@settings(max_examples=examples(100))
@given(st.binary(max_size=60))
@example(READ[0])
@example(READ[1])
def test_any_bytes_give_properties_that_are_read_or_our_error(message: bytes) -> None:
    parses_or_is_refused(message)


@settings(max_examples=examples(200))
@given(ELEMENTS, st.data())
def test_any_elements_give_properties_that_are_read_or_our_error(
    content: Any, data: st.DataObject
) -> None:
    text = markup(content, lambda: data.draw(ATTRIBUTES))
    parses_or_is_refused(f"<root>{text}</root>".encode())


MEMBERS = st.recursive(
    st.sampled_from(
        [None, True, "", "I", "c", "INSERT", "A.B", "A", "2026-01-05", 1767603600000, 1.5]
    ),
    lambda below: st.one_of(
        st.lists(below, max_size=2),
        st.dictionaries(
            st.sampled_from(
                [
                    "op",
                    "op_type",
                    "table",
                    "schema",
                    "payload",
                    "source",
                    "before",
                    "after",
                    "after.A",
                    "op_ts",
                    "primary_keys",
                    "__op",
                    "__table",
                    "__schema",
                    "ts_ms",
                    "a",
                    "x.y",
                    "tokens",
                    "txId",
                ]
            ),
            below,
            max_size=6,
        ),
    ),
    max_leaves=16,
)


@settings(max_examples=examples(300))
@given(st.lists(MEMBERS, min_size=1, max_size=3))
@example([{"op": "c", "source": {}, "after": {"a": 1}}])
@example([{"op_type": "I", "table": "A.B", "primary_keys": [1], "after": {"a": 1}}])
@example([{"op_type": "I", "table": "A.B", "after": {"a": 1}}, {"op_type": "I"}])
@example([{"op_type": "I", "table": "A.B", "after": {"a": 1}}])
@example([{"__op": "c", "__table": ["A"], "__schema": "A", "a": 1}])
def test_any_json_gives_properties_that_are_read_or_our_error(documents: list[Any]) -> None:
    bodies = [json.dumps(one).encode() for one in documents]
    try:
        proposed = proposal.propose(bodies)
    except TrailgateError:
        assert documents != [{"op_type": "I", "table": "A.B", "after": {"a": 1}}]
        return
    assert (
        proposed.error is not None
        or proposal.find_first_error(proposed.text, messages_from(bodies), cut=False) is None
    )


ONE_ROW = """\
I,HR.EMP,2026-01-05 09:00:00,101,BOB
U,HR.EMP,2026-01-05 09:00:01,101,ROB
D,HR.EMP,2026-01-05 09:00:02,101,NULL
"""
TWO_ROWS = """\
I,HR.EMP,2026-01-05 09:00:00,7001,101,BOB
I,HR.EMP,2026-01-05 09:00:00,7001,102,ANN
"""


def test_the_key_of_a_row_is_not_taken_for_a_transaction_id(tmp_path: Path) -> None:
    assert [row["after"] for row in captured(tmp_path, ONE_ROW)][:2] == [
        {"COL1": "101", "COL2": "BOB"},
        {"COL1": "101", "COL2": "ROB"},
    ]
    assert "is it the id of a transaction?" in propose(ONE_ROW.encode())


def test_a_value_that_two_inserted_rows_share_is_their_transaction_id() -> None:
    proposed = propose(TWO_ROWS.encode())

    assert "delim.txid=tx" in proposed.splitlines()
    assert "is it the id" not in proposed
