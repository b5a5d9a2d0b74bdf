"""The shell commands of docs/*.md run as they are printed, one after another in an empty folder.

What a document takes as given, such as messages, is made here first. Blocks of Python that begin with ``import trailgate`` run too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import pytest

from document_commands import blocks, is_shell, obeyed, plain, statements
from trailgate.cli.commands.demo import unpack
from trailgate.cli.main import run
from trailgate.storage.stores.writable_stores import writable_store

ROOT: Final = Path(__file__).parents[1]
DOCUMENTS: Final = sorted((ROOT / "docs").glob("*.md"))
BROKERS: Final = re.compile(
    r"\b(?:stomp|amqp|kafka)://broker|journal dirdat"
)  # these need a broker: see tests/brokers
ELSEWHERE: Final = (
    "make ",
    "pip ",
    "trailgate demo",
)  # these need a network, and are what installs all this
ORDER: Final = """\
       01 ORDER-REC.
           05 ID        PIC 9(8).
           05 QTY       PIC S9(2) COMP.
           05 TOTAL     PIC S9(7)V99 COMP-5.
           05 LINES-N   PIC S9(5) COMP.
           05 NOTE      PIC X(9).
"""
ACCOUNT: Final = """\
       01 ACCOUNT.
          05 ID   PIC 9(4).
          05 NAME PIC X(6).
"""
CLAIM: Final = """\
       01 RECORD.
          05 SEG-ID PIC XX.
          05 CLAIM.
             10 NUMBER PIC 9(3).
             10 FILLER PIC X.
          05 PARTY REDEFINES CLAIM.
             10 NAME PIC X(4).
          05 PHONE REDEFINES CLAIM.
             10 DIGITS PIC X(4).
"""


POLICY = """
       01  POLICY.
           05  SEG-TYPE     PIC X(2).
           05  DATA-OF      PIC X(9).
           05  HEADER-SEG   REDEFINES DATA-OF.
               10  OWNER    PIC X(4).
           05  INSURED-SEG  REDEFINES DATA-OF.
               10  N        PIC 99.
"""


def shell_blocks(path: Path) -> list[str]:
    return [block for block in blocks(path) if is_shell(block)]


def copybook() -> None:
    write("ACCOUNT.cpy", ACCOUNT)
    write("ORDER.cpy", ORDER)
    write("CLAIM.cpy", CLAIM)
    write("data/1", "1234NAMED ".encode("cp037"))
    write("claims", "CL007 PAANNAPH555 ".encode("cp037"))
    write("POLICY.cpy", POLICY)
    write("kinds.txt", "SEG-TYPE: PH=HEADER-SEG, IN=INSURED-SEG")
    first, second = "PHACME".encode("cp037"), "IN07".encode("cp037")
    write("POLICY.DATA", b"\0\x16\0\0\0\x0a\0\0" + first + b"\0\x08\0\0" + second)


def logdump() -> None:
    unpack(Path("demo"))
    assert run(["demo", "--no-spark"]) == 0


def cli() -> None:
    """The trail of the sample."""
    unpack(Path())
    statement = "capture --properties dirprm/shop.properties --from messages --to dirdat/ot"
    assert run(statement.split()) == 0


def publications() -> None:
    write(
        "make.properties",
        "parser.type=delim\ndelim.header=a\ndelim.userdefs.tables=U.T\ndelim.optype=a\ndelim.schemaandtable=a\n"
        "delim.userdefs.U.T.columns=ID,V\ndelim.userdefs.U.T.ID=vchar 10\ndelim.userdefs.U.T.V=vchar 10\n",
    )
    assert run(["gendef", "-prop", "make.properties", "-out", "dirdef/src.def"]) == 0
    fields = '10,"IBM","2026005","090000000000","U","T","ISRT","T1","L1","2026-01-05-09.00.00.000000","P","0000",,,"1","x"'
    write("messages/1.txt", fields + "\n")


def json_messages() -> None:
    """A trail to publish; the messages are those of its own folder."""
    publications()
    write(
        "make.properties",
        "parser.type=event_publishing\nevent_publishing.sourcedefs=dirdef/src.def\n",
    )
    statement = "capture --from messages/1.txt --properties make.properties --to dirdat/ot"
    assert run(statement.split()) == 0
    Path("messages/1.txt").unlink()


def stores() -> None:
    """A bucket that has the sample, and a file of records."""
    unpack(Path("sample"))
    store = cast("Any", writable_store("s3://shop", "a test")[0])
    store.call("create_bucket")
    store.delete(key for key, _ in store.list_keys(""))
    for path in Path("sample").rglob("*"):
        if path.is_file():
            key = path.relative_to("sample").as_posix()
            store.call("put_object", key, Body=path.read_bytes())
    store.call("put_object", "dirprm/account.cpy", Body=ACCOUNT.encode())
    store.call("put_object", "data/accounts.dat", Body="1234NAMED ".encode("cp037"))


GIVEN: Final[dict[str, Callable[[], None]]] = {
    "cli.md": cli,
    "copybook.md": copybook,
    "extract.md": cli,
    "format.md": cli,
    "json.md": json_messages,
    "logdump.md": logdump,
    "operations-table.md": cli,
    "properties.md": cli,
    "publications.md": publications,
    "stores.md": stores,
}


def write(name: str, content: str | bytes) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def names_store(path: Path) -> bool:
    return "s3://" in "".join(shell_blocks(path))


def documents(having: str) -> list[Any]:
    """Return the documents whose commands have a word; those that name a store need its server."""
    return [
        pytest.param(path, id=path.name, marks=[pytest.mark.servers] * names_store(path))
        for path in DOCUMENTS
        if having in "".join(shell_blocks(path))
    ]


def run_document(path: Path, request: pytest.FixtureRequest, *, on_spark: bool) -> None:
    if names_store(path):
        request.getfixturevalue("s3_server")
    GIVEN.get(path.name, lambda: None)()
    for block in shell_blocks(path):
        for statement in statements(block):
            if BROKERS.search(statement):
                continue
            if ("--master" in statement) is on_spark or (on_spark and not plain(statement)):
                obeyed(statement)


@pytest.mark.parametrize("path", documents("trailgate"))
def test_commands_of_a_document_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    run_document(path, request, on_spark=False)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("path", documents("--master"))
def test_commands_of_a_document_run_on_spark(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    run_document(path, request, on_spark=True)


def test_every_command_line_of_the_documents_is_run() -> None:
    """A line that begins with our program is in a block that runs."""
    ours = re.compile(r"^ *(?:\$ )?(trailgate .*|pip .*|make .*)$", re.MULTILINE)
    for path in DOCUMENTS:
        run_here = [s for block in shell_blocks(path) for s in statements(block)]
        for line in ours.findall("\n".join(blocks(path))):
            if not line.startswith(ELSEWHERE):
                assert any(line in one for one in run_here), (path.name, line)
