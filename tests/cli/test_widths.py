"""What commands print on a terminal fits it, however narrow it is; only ``--wide`` asks for more."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from rich.cells import cell_len

from held_captures import SHOP_FILE
from journal_messages import stored
from trailgate.cli.commands.demo import unpack
from trailgate.cli.main import COMMANDS, run
from trailgate.live.files.journal_writer import Journal

WIDTHS = (60, 80, 120, 200)
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
CAPTURE = ("capture", "--properties", "dirprm/shop.properties", "--from", "messages")
COPYBOOK = """\
       01 ACCOUNT-RECORD-WITH-A-LONG-NAME.
          05 ID PIC 9(4).
          05 A-NAME-THAT-IS-LONG-TOO PIC X(20) OCCURS 3 TIMES.
          05 BALANCE PIC 9(7)V99.
             88 EMPTY-BALANCE VALUE 0.
"""
XML = f"""\
parser.type=xml
xml.sourcedefs={SHOP_FILE}
xml.rules=op
op.type=op
op.match=/operation
op.schemaandtable="OGG.PAIR"
op.optype="I"
op.subrules=col,none
col.type=col
col.match=./column
col.name=@name
col.value=./text()
none.type=col
none.match=./a-path/that/is/longer/than/most/and/has/no/match
none.name=@name
none.value=./text()
"""
LISTINGS = [
    *([command, "--help"] for command in COMMANDS),
    ["--help"],
    [],
    ["show", "dirdat/ot"],
    ["show", "dirdat/ot", "--records", "all"],
    ["sql", "SELECT * FROM 'dirdat/ot'"],
    ["sql", "SELECT op_type, count(*) FROM 'dirdat/ot' GROUP BY ALL"],
    ["sql", "SELECT * FROM 'dirdat/ot:GG.JMSCAP_TCUSTMER'"],
    ["analyze", "dirdat/ot"],
    ["check", "dirdat/ot", "--values"],
    ["check", "damaged/ot"],
    ["assumptions"],
    ["copybook", "account.cpy"],
    ["records", "account.dat", "--copybook", "account.cpy", "--option", "codePage=ascii"],
    ["journal", "list", "ot.journal"],
    ["journal", "show", "ot.journal"],
    ["explain", "message.xml", "--properties", "xml.properties"],
    ["gendef", "--properties", "dirprm/shop.properties", "--to", "shop.def", "--force"],
    [*CAPTURE, "--to", "dirdat/ot", "--dry-run"],
    [*CAPTURE, "--to", "dirdat/new"],
    ["publish", "dirdat/ot", "--to", "published", "--format", "json"],
    ["apply", "dirdat/ot", "--to", "duckdb:new.duckdb"],
    ["apply", "dirdat/ot", "--to", "duckdb:applied.duckdb", "--status"],
    ["redact", "dirdat/ot", "--to", "redacted/ot"],
    ["report", "dirdat/ot", "--to", "new.html"],
    ["logdump", "-c", "HELP"],
]


class Terminal(io.StringIO):
    """What is printed, on a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("widths")
        unpack(folder)
        patch.chdir(folder)
        patch.setenv("TRAILGATE_PAGER", "cat")
        with redirect_stdout(io.StringIO()):
            assert run([*CAPTURE, "--to", "dirdat/ot", "--update-befores"]) == 0
            assert run(["apply", "dirdat/ot", "--to", "duckdb:applied.duckdb"]) == 0
        whole = Path("dirdat/ot000000000").read_bytes()
        Path("damaged").mkdir()
        Path("damaged/ot000000000").write_bytes(whole[:1000] + whole[1040:-9])
        Path("account.cpy").write_text(COPYBOOK)
        Path("account.dat").write_bytes((b"0001" + b"A" * 60 + b"000012345") * 3)
        Path("xml.properties").write_text(XML)
        Path("message.xml").write_text(
            f"<operation><column name='NAME'>{'word ' * 40}</column></operation>"
        )
        with Journal(folder / "ot.journal") as journal:
            stored(journal, 0, [f"I,GG.SHOP_ORDERS,{'x' * 99}"])
        yield folder


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("line", LISTINGS, ids=lambda line: " ".join(line[:3]) or "nothing")
@pytest.mark.usefixtures("shop")
def test_no_line_is_wider_than_the_terminal(
    line: list[str], width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    named = [re.sub(r"new(?=$|\.)|published|redacted", rf"\g<0>{width}", word) for word in line]

    with redirect_stdout(Terminal()) as out, redirect_stderr(Terminal()) as notes:
        code = run(named)

    assert code == (2 if not line else 1 if "damaged/ot" in line else 0), notes.getvalue()
    printed = COLOURS.sub("", out.getvalue() + notes.getvalue()).splitlines()
    assert printed
    assert [one for one in printed if cell_len(one) > width] == []


def test_a_row_is_one_line_where_that_is_asked_for(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    with redirect_stdout(Terminal()) as out:
        assert run(["show", str(shop / "dirdat/ot"), "--wide"]) == 0

    assert max(map(len, COLOURS.sub("", out.getvalue()).splitlines())) > WIDTHS[0]
