"""What ``trailgate init`` proposes from messages of each form is what a capture takes: the operations are those of the messages."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import trailgate
from trailgate.cli.main import run
from trailgate.jobs.proposals import proposal
from trailgate.jobs.proposals.proposal import FORMS, propose

AT = "2026-01-05 09:00:00"
ALICE, BOB = {"ID": "1", "NAME": "Alice"}, {"ID": "1", "NAME": "Bob"}
COLUMNS = {"ID": "COL1", "NAME": "COL2"}
Operation = tuple[str, dict[str, str], dict[str, str]]
INSERT: Operation = ("I", {}, ALICE)
UPDATE: Operation = ("U", ALICE, BOB)
DELETE: Operation = ("D", BOB, {})


def numbered(*operations: Any) -> list[Any]:
    """Return operations whose columns are numbered."""
    return [
        (kind, *({COLUMNS[name]: value for name, value in image.items()} for image in images))
        for kind, *images in operations
    ]


def publication(kind: str, values: str) -> str:
    return f'10,"IBM","2026005","090000000000","S","C","{kind}","T1","L1","2026-01-05-09.00.00.000000","P","0000",{values}\n'


def formatter(kind: str, **members: Any) -> str:
    return json.dumps({"table": "S.C", "op_type": kind, "op_ts": f"{AT}.000000", **members})


def event(kind: str, before: Any, after: Any, **source: Any) -> dict[str, Any]:
    place = {"schema": "S", "table": "C", "ts_ms": 1767603600000, **source}
    return {"op": kind, "before": before, "after": after, "source": place}


def with_schema(payload: dict[str, Any]) -> str:
    row = [{"field": name, "type": "string"} for name in ALICE]
    images = [{"field": name, "type": "struct", "fields": row} for name in ("before", "after")]
    return json.dumps({"schema": {"type": "struct", "fields": images}, "payload": payload})


def xml_publication(row: str) -> str:
    head = '<msg xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" version="1.0.0" dbName="D">'
    return f'{head}<trans isLast="1" segmentNum="1" cmitLSN="0000:0000:0000:0000:0001" cmitTime="2026-01-05T09:00:00.000000">{row}</trans></msg>'


@dataclass(frozen=True)
class Case:
    messages: list[str]
    operations: list[Any]
    lines: list[str]
    absent: list[str] = field(default_factory=list)
    name: str = "S.C"


CASES = {
    "publication": Case(
        [publication("ISRT", ',,"1","Alice"'), publication("REPL", '"1","Alice","1","Bob"')],
        numbered(INSERT, UPDATE),
        ["parser.type=event_publishing", "event_publishing.userdefs.S.C.COL1=vchar 10 key"],
        ["TO FILL IN"],
    ),
    "publication with other delimiters": Case(
        [publication("ISRT", ',,"1","Alice"').replace(",", "|").replace('"', "'")],
        numbered(INSERT),
        ["event_publishing.fielddelim=|", "event_publishing.quote='"],
    ),
    "XML publication": Case(
        [
            xml_publication(
                '<insertRow subName="S" srcOwner="S" srcName="C"><col name="ID" isKey="1"><char>1</char></col><col name="NAME"><varchar>Alice</varchar></col></insertRow>'
            )
        ],
        [INSERT],
        ["parser.type=event_publishing", "event_publishing.userdefs.S.C.ID=vchar 10 key"],
    ),
    "GoldenGate's JSON": Case(
        [
            formatter("I", primary_keys=["ID"], after=ALICE),
            formatter("U", primary_keys=["ID"], before=ALICE, after=BOB),
            formatter("D", primary_keys=["ID"], before=BOB),
        ],
        [INSERT, UPDATE, DELETE],
        ["parser.type=json", "json.userdefs.S.C.ID=vchar 10 key"],
        ["TO FILL IN", "json.optype", "json.timestamp"],
    ),
    "documents of one message, and an array of them": Case(
        [formatter("I", after=ALICE) + "\n" + f"[{formatter('D', before=BOB)}]"],
        [INSERT, DELETE],
        ["parser.type=json"],
    ),
    "GoldenGate's JSON rows": Case(
        [formatter("I", pos="1", **ALICE)], [INSERT], ["json.model=row"], ["json.userdefs.S.C.pos"]
    ),
    "flat JSON": Case(
        [formatter("I", **{f"after.{name}": value for name, value in ALICE.items()})],
        [INSERT],
        ["json.model=flat"],
    ),
    "JSON with other names": Case(
        [
            json.dumps(
                {
                    "operation": kind,
                    "meta": {"tableName": "S.C", "commitTime": "2026-01-05T09:00:00Z"},
                    "old": old,
                    "new": new,
                }
            )
            for kind, old, new in (("INSERT", None, ALICE), ("UPDATE", ALICE, BOB))
        ],
        [INSERT, UPDATE],
        [
            "json.optype=operation",
            "json.optype.insertval=INSERT",
            "json.schemaandtable=meta.tableName",
            "json.timestamp.format=YYYY-MM-DDTHH:MI:SSZ",
            "json.before=old",
            "json.after=new",
        ],
    ),
    **{
        f"JSON with a time of any name, {form}": Case(
            [
                json.dumps({"kind": kind, "table": "S.C", "when": when, "before": old, "after": new})
                for kind, old, new in (("INSERT", None, ALICE), ("UPDATE", ALICE, BOB))
            ],
            [INSERT, UPDATE],
            ["json.optype=kind", "json.timestamp=when"],
        )
        for form, when in (("SQL", "2026-01-05 09:00:00"), ("ISO", "2026-01-05T09:00:00Z"))
    },
    "JSON with the schema in another member": Case(
        [
            json.dumps(
                {"database": "S", "table": "C", "type": kind, "ts": f"{AT}.5", "data": new, "old": old}
            )
            for kind, new, old in (("insert", ALICE, None), ("update", BOB, ALICE))
        ],
        [INSERT, UPDATE],
        ['json.schemaandtable="S.C"', "json.userdefs.S.C.columns=ID,NAME", "# TO FILL IN: no member has the table's name"],
    ),
    "change events": Case(
        [
            json.dumps(event("c", None, ALICE)),
            json.dumps(event("u", ALICE, BOB)),
            json.dumps(event("d", BOB, None)),
            "null",
        ],
        [INSERT, UPDATE, DELETE],
        ["parser.type=debezium", "debezium.txid=*txid", "debezium.userdefs.S.C.ID=vchar 10 key"],
        ["TO FILL IN"],
    ),
    "change events with schemas and transactions": Case(
        [with_schema(event("c", None, ALICE, txId=7)), with_schema(event("u", ALICE, BOB, txId=7))],
        [INSERT, UPDATE],
        ["parser.type=debezium"],
        ["userdefs", "debezium.txid", "TO FILL IN"],
    ),
    "rows of change events": Case(
        [
            json.dumps(
                ALICE
                | {"__op": "c", "__table": "C", "__schema": "S", "__source_ts_ms": 1767603600000}
            )
        ],
        [INSERT],
        ["debezium.model=row"],
        ["TO FILL IN"],
    ),
    "rows of change events without a schema's name": Case(
        [json.dumps(ALICE | {"__op": "c", "__table": "C", "__ts_ms": 1767603600000})],
        [INSERT],
        ['debezium.schema="MY"', "# TO FILL IN: the schema, which the rows do not have"],
        name="MY.C",
    ),
    "times in UTC": Case(
        ["I;S.C;2026-01-05T09:00:00.0Z;1;Alice\nI;S.C;2026-01-05T09:00:00.000Z;2;Bob\n"],
        numbered(INSERT, ("I", {}, {"ID": "2", "NAME": "Bob"})),
        ["delim.timestamp=ts", "delim.timestamp.format=YYYY-MM-DDTHH:MI:SS.FZ"],
        ["TO FILL IN"],
    ),
    "the longest value of several messages": Case(
        [f"I,S.C,{AT},1,Alice", f"I,S.C,{AT},1,Alice{' and others' * 3}\n", f"I,S.C,{AT},1,Alice"],
        numbered(INSERT, ("I", {}, ALICE | {"NAME": "Alice and others and others and others"}), INSERT),
        ["# Proposed from 3 messages of 3 records. Check each line.", "delim.userdefs.S.C.COL2=vchar 80"],
    ),
    "operations of several tables in messages of their own": Case(
        [f"I|S.C|{AT}|1|Alice\n", f"D|S.D|{AT}|1|Bob|x\n"],
        [*numbered(INSERT), ("D", {"COL1": "1", "COL2": "Bob", "COL3": "x"}, {})],
        ["delim.userdefs.tables=S.C,S.D"],
        name="",
    ),
    "XML in several messages": Case(
        [
            f'<tx ts="{AT}"><op table="S.C" type="{kind}"><ID>1</ID><NAME>{name}</NAME></op></tx>'
            for kind, name in (("I", "Alice"), ("D", "Bob"))
        ],
        [INSERT, DELETE],
        ["# Proposed from 2 XML messages. Check each line; trailgate explain shows what"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", list(CASES.values()), ids=list(CASES))
def test_messages_are_captured_by_the_properties_that_are_proposed_from_them(
    case: Case,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    for number, message in enumerate(case.messages):
        Path(f"in/{number}").write_text(message)

    assert run(["init", "--from", "in", "--to", "."]) == 0
    printed = capfd.readouterr().out
    text = Path("dirprm/in.properties").read_text()

    for line in case.lines:
        assert any(one.startswith(line) for one in text.splitlines()), text
    for absent in case.absent:
        assert absent not in text
    (command,) = [line for line in printed.splitlines() if line.startswith("  trailgate capture")]
    words = shlex.split(command)[1:]
    assert run(words) == 0
    assert words.pop() == "--dry-run"
    rules = ["--update-befores", "--no-compress-deletes", "--no-compress-updates"]
    assert run([*words, *rules]) == 0
    rows = [row for batch in trailgate.read_trail("dirdat/ot") for row in batch.to_pylist()]
    assert [(row["op_type"], dict(row["before"] or ()), dict(row["after"] or ())) for row in rows] == case.operations  # fmt: skip
    assert {str(row["op_ts"])[:19] for row in rows} == {AT}
    assert not case.name or {row["table"] for row in rows} == {case.name}


def test_names_in_the_first_line_are_those_of_fields_and_have_to_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = ["OP;TABLE;TS;ID;NAME\n", f"I;S.C;{AT};1;Alice\n", f"D;S.C;{AT};1;Alice\n"]
    Path("export.csv").write_text("".join(lines))

    assert run(["init", "--from", "export.csv", "--to", "made"]) == 1

    printed = capfd.readouterr().out
    assert "to fill in: the first line has the names of fields" in printed
    text = Path("made/dirprm/export.properties").read_text().splitlines()
    assert {"delim.header=OP,TABLE,TS", "delim.optype=OP", "delim.schemaandtable=TABLE"} <= set(
        text
    )
    assert "delim.userdefs.S.C.columns=ID,NAME" in text
    Path("export.csv").write_text("".join(lines[1:]))
    words = ["--properties", "made/dirprm/export.properties", "--from", "export.csv"]
    assert run(["capture", *words, "--to", "dirdat/ot"]) == 0
    (first, _) = [row for batch in trailgate.read_trail("dirdat/ot") for row in batch.to_pylist()]
    assert dict(first["after"]) == ALICE


@pytest.mark.parametrize(
    "lines",
    [
        [f"I;S.C;{AT};1;Alice", f"D;S.C;{AT};1;Alice"],
        ["I;CUST;Alice", "U;CUST;1"],  # an operation of names alone
        ["insert;CUST;Alice", "delete;CUST;7"],
    ],
)
def test_a_first_line_that_is_an_operation_is_not_one_of_names(lines: list[str]) -> None:
    text = propose(["\n".join(lines).encode()]).text

    assert "the first line has the names" not in text
    assert "delim.header=optype,tablename" in text


def test_existing_files_are_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path("in/1").write_text(f"I,S.C,{AT},1,Alice\n")
    Path("dirprm").mkdir()
    Path("dirprm/in.properties").write_text("mine")

    assert run(["init", "--from", "in", "--to", "."]) == 2
    assert "the file exists already (dirprm/in.properties)" in capfd.readouterr().err
    assert Path("dirprm/in.properties").read_text() == "mine"
    assert run(["init", "--from", "in"]) == 0
    printed = capfd.readouterr()
    assert printed.out.startswith("# Proposed from 1 message of 1 record.")
    assert "--from in --to dirdat/ot --dry-run" in printed.err


def test_what_is_not_known_is_named_with_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("1|x|y\n2|x|z\n")

    assert run(["init", "--from", "in.csv"]) == 1
    assert "to fill in: no field has operation types" in capfd.readouterr().err
    assert run(["init", "--from", "stomp://broker/orders"]) == 2
    assert "init reads files, not brokers" in capfd.readouterr().err
    Path("in.jsonl").write_text(formatter("I", after=ALICE) + "\n")
    assert run(["init", "--from", "in.jsonl"]) == 1
    Path("in.jsonl").rename("in.json")
    assert run(["init", "--from", "in.json", "--message-per", "line"]) == 0
    assert "--message-per line" in capfd.readouterr().err


def test_only_the_first_of_many_messages_are_read_with_a_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(proposal, "SAMPLED", 60)
    monkeypatch.setattr(proposal, "_PORTION", 64)
    Path("in.csv").write_text(f"I,S.C,{AT},1,Alice\n" * 10)

    assert run(["init", "--from", "in.csv", "--message-per", "line"]) == 0
    assert "only the first megabytes of the messages were examined" in capfd.readouterr().err


def test_each_form_has_a_case() -> None:
    bodies = [case.messages[0].encode() for case in CASES.values()]
    chosen = {next(at for at, form in enumerate(FORMS) if form.fits(body)) for body in bodies}

    assert chosen == set(range(len(FORMS)))


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        (
            "a.csv",
            "",
            "there are no messages. a.csv is empty (0 bytes): was it written completely?",
        ),
        ("a.jsonl", "", "there are no messages. a.jsonl is empty (0 bytes)"),
        ("a.jsonl", "\n\n", "there are no messages. The files are blank"),
        ("a.csv", " \n", "there are no messages. The files are blank"),
        ("a.txt", "no delimiter\nhere", "no delimiter occurs in all lines of the message"),
        ("a.json", "[1, 2]", "the messages have no JSON objects"),
        ("a.json", '{"a": 1}', "no member of the JSON documents has operation types"),
    ],
)
def test_messages_that_are_not_recognized_end_with_1(
    name: str,
    content: str,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(content)

    assert run(["init", "--from", name, "--to", "."]) == 1

    assert problem in capfd.readouterr().err
    assert not Path("dirprm").exists()


def test_empty_files_among_the_messages_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path("in/1").write_text("")
    Path("in/2").write_text(f"I,S.C,{AT},1,Alice\n")

    assert run(["init", "--from", "in"]) == 0

    assert "note: in/1 is empty (0 bytes): was it written completely?" in capfd.readouterr().err


@pytest.mark.parametrize("to", ["s3://bucket/made", "file:///made"])
def test_properties_are_not_written_to_an_address(
    to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text(f"I,S.C,{AT},1,Alice\n")

    assert run(["init", "--from", "in.csv", "--to", to]) == 2

    assert "--to takes a local path, not the address" in capfd.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_properties_of_the_parent_folder_have_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "1.csv").write_text(f"I,S.C,{AT},1,Alice\n")
    monkeypatch.chdir(tmp_path / "here")

    assert run(["init", "--from", "..", "--to", "."]) == 0

    assert "dirprm/capture.properties" in capfd.readouterr().out
