"""``trailgate gendef``: the file a consumer of the trail gets, by the flags that Oracle's has."""

from __future__ import annotations

from pathlib import Path

import pytest

from trailgate.cli.main import run
from trailgate.definitions.defgen import read_sourcedefs
from trailgate.definitions.defgen_layout import find_layout_fault

COPYBOOK = """
 01 HEADER.
    20 OP    PIC X.
    20 REC   PIC X(8).
    20 SITE  PIC 9(2).
 01 ACCOUNT.
 * KEY
    20 NUM      PIC 9(10).
    20 BALANCE  PIC S9(7)V99 COMP-3.
 * YYMMDD
    20 OPENED   PIC 9(6).
    20 RATE     PIC S9(20)V9(8) COMP-3.
"""
OF_COPYBOOK = """parser.type=fixed
fixed.copybook={folder}/account.cpy
fixed.header=HEADER
fixed.schema=BANK
fixed.optype=OP
fixed.table=REC
"""
OF_USERDEFS = """parser.type=fixed
fixed.userdefs.tables=Q.HEADER,Q.NOTES
fixed.userdefs.Q.HEADER.columns=optype,table
fixed.userdefs.Q.HEADER.optype=vchar 1
fixed.userdefs.Q.HEADER.table=vchar 10
fixed.userdefs.Q.NOTES.columns=A,B
fixed.userdefs.Q.NOTES.A=vchar 3
fixed.userdefs.Q.NOTES.B=vchar 30
fixed.header=Q.HEADER
"""
OF_DELIMITED = """parser.type=delim
delim.userdefs.tables=Q.NOTES
delim.userdefs.Q.NOTES.columns=A,B
delim.userdefs.Q.NOTES.A=vchar 3
delim.userdefs.Q.NOTES.B=vchar 30
delim.header=op,table
delim.optype=op
delim.schemaandtable=table
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "account.cpy").write_text(COPYBOOK)
    return tmp_path


def written(folder: Path, text: str, *more: str) -> tuple[int, Path]:
    properties, out = folder / "a.properties", folder / "a.def"
    properties.write_text(text.format(folder=folder))
    return run(["gendef", "-prop", str(properties), "-out", str(out), *more]), out


def test_a_copybook_becomes_a_definitions_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = written(folder, OF_COPYBOOK)

    table = read_sourcedefs(out.read_bytes()).table("BANK.ACCOUNT")
    facts = [(c.name, c.data_type, c.external_length, c.scale, c.key) for c in table.columns]
    assert code == 0
    assert facts == [
        ("SITE", 134, 2, 0, False),
        ("NUM", 134, 10, 0, True),
        ("BALANCE", 134, 9, 2, False),
        ("OPENED", 192, 10, 0, False),
        ("RATE", 64, 30, 8, False),
    ]
    assert find_layout_fault(table) is None
    said = capsys.readouterr().out
    assert "BANK.ACCOUNT: 5 columns" in said
    assert "key NUM" in said
    assert f"{out}: 1 table" in said


@pytest.mark.parametrize("text", [OF_USERDEFS, OF_DELIMITED])
def test_tables_of_the_properties_become_a_definitions_file(folder: Path, text: str) -> None:
    code, out = written(folder, text)

    definitions = read_sourcedefs(out.read_bytes())
    assert code == 0
    assert [table.name for table in definitions] == ["Q.NOTES"]
    assert [column.external_length for column in definitions.tables[0].columns] == [3, 30]
    assert definitions.database.character_set == "UTF-8"


def test_generated_definitions_are_generated_again_unchanged(folder: Path) -> None:
    _, out = written(folder, OF_COPYBOOK)
    first = out.read_bytes()

    again = OF_DELIMITED.partition("delim.header")
    code, _ = written(
        folder, f"parser.type=delim\ndelim.sourcedefs={out}\n{again[1]}{again[2]}", "--force"
    )
    assert (code, out.read_bytes()) == (0, first)


def test_a_file_is_written_over_only_if_asked_for(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.def").write_text("mine")

    code, out = written(folder, OF_COPYBOOK)

    assert (code, out.read_text()) == (2, "mine")
    assert "--force" in capsys.readouterr().err
    assert written(folder, OF_COPYBOOK, "--force")[0] == 0
    assert read_sourcedefs(out.read_bytes())


def test_the_folder_of_the_file_is_made(folder: Path) -> None:
    out = folder / "dirdef" / "msgdefs.def"
    (folder / "a.properties").write_text(OF_COPYBOOK.format(folder=folder))

    assert run(["gendef", "-prop", str(folder / "a.properties"), "-out", str(out)]) == 0
    assert read_sourcedefs(out.read_bytes()).table("BANK.ACCOUNT")


def test_without_a_file_it_is_printed(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "a.properties").write_text(OF_COPYBOOK.format(folder=folder))

    assert run(["gendef", "--prop", str(folder / "a.properties")]) == 0
    assert read_sourcedefs(capfd.readouterr().out.encode()).table("BANK.ACCOUNT")


def test_tables_of_xml_properties_become_a_definitions_file(folder: Path) -> None:
    """Their rules have names of the user's own, and say nothing of tables."""
    text = OF_DELIMITED.partition("delim.header")[0].replace("delim", "xml")
    rules = "xml.rules=txrule\ntxrule.type=tx\ntxrule.match=/Transaction\n"

    code, out = written(folder, text + rules)

    assert (code, [table.name for table in read_sourcedefs(out.read_bytes())]) == (0, ["Q.NOTES"])


def test_xml_properties_without_tables_are_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert written(folder, "parser.type=xml\n")[0] == 2
    assert "xml.sourcedefs or xml.userdefs.tables is required" in capsys.readouterr().err


def test_a_missing_copybook_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert written(folder, OF_COPYBOOK.replace("account", "other"))[0] == 2
    assert "the copybook file does not exist" in capsys.readouterr().err
