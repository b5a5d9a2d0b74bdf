"""Statements of the adapter's guide, from messages to the bytes of a trail."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from trailgate.cli.main import run
from trailgate.storage.reading.trails import read_trail
from trailgate.trail.format.file_header import decode_header

PROPERTIES = """parser.type=delim
delim.sourcedefs=dirdef/my.def
delim.header=optype,tablename,ts
delim.optype=optype
delim.schemaandtable=tablename
delim.timestamp=ts
delim.nullindicator=NULL
"""
DEFINITIONS = """\
Definition for table MY.TABLE
Record length: 66
Syskey: 0
Columns: 4
KEYCOL   64     10        0  0  0 1 0     10     10      0 0 0 0 0 1    0 1   0
COL1     64     10       16  0  0 1 0     10     10      0 0 0 0 0 1    0 0   0
NUM1    134      4       32  2  0 1 0      8      8      8 0 0 0 0 1    0 0   0
DT1     192     19       44  0  0 1 0     19     19     19 0 5 0 0 1    0 0   0
End of definition
"""
ROW = "I,MY.TABLE,2026-01-05 09:00:01,{},one,12.34,2026-01-02 03:04:05"
EXTRACT = """EXTRACT jmsvam
VAM libggjava_vam.so, PARAMS dirprm/p.properties
EXTTRAIL dirdat/id, FORMAT RELEASE 12.2
TABLE MY.*;
"""
CAPTURE = ["capture", "--properties", "dirprm/p.properties", "--from", "messages", "--to", "ot"]


@pytest.fixture(autouse=True)
def _site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("dirdef", "dirprm", "messages", "dirdat"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path)
    Path("dirdef/my.def").write_text(DEFINITIONS)
    Path("dirprm/p.properties").write_text(PROPERTIES)


def records(prefix: str) -> list[dict[str, Any]]:
    """Return the change records of a trail."""
    rows = [row for batch in read_trail(prefix, records="all") for row in batch.to_pylist()]
    return [row for row in rows if row["type_name"] != "Metadata"]


def captured(*bodies: str) -> list[dict[str, Any]]:
    """Return the change records that messages become."""
    for number, body in enumerate(bodies):
        Path(f"messages/{number:04}.txt").write_text(body)
    assert run(CAPTURE) == 0
    return records("ot")


def test_the_timestamp_is_the_time_of_the_record() -> None:
    (record,) = captured(ROW.format("k1"))

    assert record["io_time"] == datetime(2026, 1, 5, 9, 0, 1, tzinfo=UTC)


def test_a_transaction_has_its_indicators_in_the_trail() -> None:
    found = captured("\n".join(ROW.format(f"k{i}") for i in range(3)), ROW.format("k9"))

    assert [record["trans_ind"] for record in found] == [0, 1, 2, 3]


def test_values_are_written_in_their_types_and_in_the_order_of_the_definition() -> None:
    Path("dirprm/p.properties").write_text(f"{PROPERTIES}delim.hasnames=true\n")

    (record,) = captured(
        "I,MY.TABLE,2026-01-05 09:00:01,KEYCOL,k1,COL1,NULL,NUM1,12.34,DT1,2026-01-02 03:04:05"
    )

    assert record["data"] == (
        bytes.fromhex("0000 0006 0000 0002") + b"k1"
        + bytes.fromhex("0001 0004 ffff 0000")
        + bytes.fromhex("0002 000a 0000 00000000000004d2")
        + bytes.fromhex("0003 0015 0000") + b"2026-01-02:03:04:05"
    )  # fmt: skip


def test_records_end_at_the_delimiter_and_the_last_may_go_without() -> None:
    found = captured(f"{ROW.format('k1')}\n{ROW.format('k2')}\n", f"{ROW.format('k3')}")

    assert len(found) == 3


def test_a_value_that_does_not_convert_ends_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    Path("messages/1.txt").write_text(ROW.format("k1").replace("12.34", "twelve"))

    assert run(CAPTURE) == 1

    assert "table MY.TABLE, field NUM1" in capsys.readouterr().err
    assert list(Path().glob("ot0*")) == []


def test_the_extract_file_names_the_format_of_its_trail() -> None:
    Path("dirprm/e.prm").write_text(EXTRACT)
    Path("messages/1.txt").write_text(ROW.format("k1"))

    assert run(["capture", "--extract", "dirprm/e.prm", "--from", "messages"]) == 0

    header, _ = decode_header(Path("dirdat/id000000000").read_bytes())
    assert header.trail.compatibility == 5


def test_the_definitions_of_gendef_let_a_consumer_read_the_trail() -> None:
    captured(ROW.format("k1"))
    assert run(["gendef", "-prop", "dirprm/p.properties", "-out", "dirdef/msgdefs.def"]) == 0
    Path("elsewhere").mkdir()
    Path("ot000000000").rename("elsewhere/ot000000000")

    rows = [
        dict(row["after"])
        for batch in read_trail("elsewhere/ot", definitions="dirdef/msgdefs.def")
        for row in batch.to_pylist()
    ]

    assert rows == [{"KEYCOL": "k1", "COL1": "one", "NUM1": "12.34", "DT1": "2026-01-02 03:04:05"}]


def test_metadata_in_the_trail_let_a_consumer_read_it_alone() -> None:
    Path("messages/1.txt").write_text(ROW.format("k1"))
    assert run([*CAPTURE, "--format-release", "12.2"]) == 0
    Path("elsewhere").mkdir()
    Path("ot000000000").rename("elsewhere/ot000000000")

    (batch,) = read_trail("elsewhere/ot")

    assert dict(batch["after"].to_pylist()[0])["NUM1"] == "12.34"


OWNED = PROPERTIES.replace("tablename,ts", "tablename,ts,owner,name") + (
    "delim.txowner=owner\ndelim.txname=name\n"
)
OWNED_ROW = "I,MY.TABLE,2026-01-05 09:00:01,{},{},{},one,12.34,2026-01-02 03:04:05"


def captured_by(parameters: str, *bodies: str) -> list[dict[str, Any]]:
    """Return the change records that messages become by an Extract parameter file."""
    Path("dirprm/p.properties").write_text(OWNED)
    Path("dirprm/e.prm").write_text(EXTRACT.replace("TABLE MY.*;", parameters))
    for number, body in enumerate(bodies):
        Path(f"messages/{number:04}.txt").write_text(body)
    assert run(["capture", "--extract", "dirprm/e.prm", "--from", "messages"]) == 0
    return records("dirdat/id")


def test_owner_and_name_of_a_transaction_are_tokens_in_the_trail() -> None:
    tokens = (
        "TKN-OWNER = @GETENV ('TRANSACTION', 'USERNAME'), TKN-NAME = @GETENV('TRANSACTION','NAME')"
    )

    (record,) = captured_by(
        f"TABLE MY.*, TOKENS ({tokens});", OWNED_ROW.format("ann", "nightly", "k1")
    )

    assert dict(record["user_tokens"]) == {"TKN-OWNER": "ann", "TKN-NAME": "nightly"}


@pytest.mark.parametrize("parameter", ["EXCLUDEUSER bad", "TRANLOGOPTIONS EXCLUDEUSER bad"])
def test_the_transactions_of_an_excluded_owner_are_not_in_the_trail(parameter: str) -> None:
    bodies = [OWNED_ROW.format(owner, "x", f"k{i}") for i, owner in enumerate(["ann", "bad", "bo"])]

    found = captured_by(f"{parameter}\nTABLE MY.*;", *bodies)

    assert [record["data"][8:10] for record in found] == [b"k0", b"k2"]


def test_the_fields_of_the_header_are_values_of_tokens() -> None:
    names = ("GGS_TRANS_TIMESTAMP", "GGS_OP_TYPE", "GGS_BEFORE_AFTER_IND")
    tokens = ", ".join(f"T{i} = {name}" for i, name in enumerate(names))
    tokens += ", OP = @GETENV ('GGHEADER', 'OPTYPE'), LEN = @GETENV('GGHEADER','RECORDLENGTH')"

    (record,) = captured_by(f"TABLE MY.*, TOKENS ({tokens});", OWNED_ROW.format("a", "n", "k1"))

    assert dict(record["user_tokens"]) == {
        "T0": "2026-01-05 09:00:01.000000",
        "T1": "INSERT",
        "T2": "AFTER",
        "OP": "INSERT",
        "LEN": str(len(record["data"])),
    }
