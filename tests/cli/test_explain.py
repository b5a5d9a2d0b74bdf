"""``trailgate explain``: what the rules of XML messages find in one message."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from held_captures import SHOP_FILE
from trailgate.cli.main import run

RULES = """parser.type=xml
xml.sourcedefs={definitions}
xml.rules=tx
tx.type=tx
tx.match=/Transaction
tx.timestamp=@ts
tx.subrules=op,other
op.type=op
op.match=./operation
op.schemaandtable=@table
op.optype="I"
op.subrules=col
col.type=col
col.match=./column
col.name=@name
col.value=./text()
col.isnull=./nil
other.type=op
other.match=./Operation[@kind='x']
other.schemaandtable=@table
other.optype="I"
"""
MESSAGE = """<Transaction ts="2020-01-02:03:04:05">
  <operation table="OGG.PAIR">
    <column name="ID">1</column>
    <column name="NAME"><nil/></column>
  </operation>
</Transaction>
"""


@pytest.fixture
def message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.properties").write_text(RULES.format(definitions=SHOP_FILE))
    path = tmp_path / "message.xml"
    path.write_text(MESSAGE)
    return path


def test_matches_values_and_operations_are_shown(
    message: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", "--properties", "x.properties", str(message)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "tx  /Transaction  line 1"
    assert "  timestamp  2020-01-02:03:04:05  (./@ts)" in lines
    assert "    col  /Transaction/operation/column[2]  line 4" in lines
    assert "      isnull  found  (./nil)" in lines
    assert "      value   nothing found  (./text())" in lines
    assert lines[-3:] == [
        "other: no match of ./Operation[@kind='x']; the message has operation",
        "W  I  OGG.PAIR  after ID=1, NAME=NULL",
        "1 operation",
    ]


def test_the_same_as_json(message: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "--properties", "x.properties", str(message), "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["matches"][0]["values"] == [
        {"name": "timestamp", "source": "./@ts", "value": "2020-01-02:03:04:05"}
    ]
    assert [rule["rule"] for rule in found["unmatched"]] == ["other"]
    assert found["operations"][0]["after"] == {"ID": "1", "NAME": None}
    assert found["problems"] == []


def test_a_message_with_an_error_still_shows_what_matched(
    message: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message.write_text(MESSAGE.replace("OGG.PAIR", "OGG.PEAR"))

    assert run(["explain", "--properties", "x.properties", str(message)]) == 0

    out = capsys.readouterr().out
    assert "tx  /Transaction" in out
    assert "error: table OGG.PEAR is not in the definitions" in out
    assert "0 operations" in out


def test_errors_are_one_line(message: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message.write_text("<a><b></a>")
    assert run(["explain", "--properties", "x.properties", str(message)]) == 1
    err = capsys.readouterr().err
    assert "mismatched tag" in err
    assert f"({message}, line 1" in err
    assert run(["explain", "--properties", "x.properties", "none.xml"]) == 1
    assert "cannot be read" in capsys.readouterr().err
    plain = "parser.type=delim\ndelim.sourcedefs={}\ndelim.header=a,b\ndelim.optype=a\ndelim.schemaandtable=b\n"
    Path("d.properties").write_text(plain.format(SHOP_FILE))
    assert run(["explain", "--properties", "d.properties", str(message)]) == 2
    assert "rules exist only for parser.type=xml" in capsys.readouterr().err
