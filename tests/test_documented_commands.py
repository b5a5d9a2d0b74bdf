"""The shell commands of README.md and docs/*.md run as they are printed, one after another in an empty folder.

What a document takes as given, such as messages, is made here first. Blocks of Python that begin with ``import trailgate`` run too.
"""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any, Final, cast

import pytest

from trailgate.cli.commands.demo import unpack
from trailgate.cli.main import run
from trailgate.storage.stores.kinds import writable_store

ROOT: Final = Path(__file__).parents[1]
DOCUMENTS: Final = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK: Final = re.compile(r"(?:^(?: {4}.*)?\n)+", re.MULTILINE)
PROGRAMS: Final = ("trailgate", "mkdir", "cat", "echo", "cp", "printf")
BROKERS: Final = re.compile(
    r"\b(?:stomp|amqp|kafka)://broker|journal dirdat"
)  # these need a broker: see tests/brokers
ELSEWHERE: Final = ("make ", "pip install")  # these need a network, and are what installs all this
XML: Final = """<transaction ts="2026-01-05 09:00:00"><operation table="MY.TABLE" optype="I">
<column name="ID"><aftervalue>1</aftervalue></column></operation></transaction>
"""
HEADER: Final = """\
       01 HEADER.
          05 HDR-TIMESTAMP PIC X(19).
          05 HDR-FUNCTION  PIC X.
          05 HDR-RECORD    PIC X(8).
"""
ACCOUNT: Final = """\
       01 ACCOUNT.
          05 ID   PIC 9(4).
          05 NAME PIC X(6).
"""


def blocks(path: Path) -> Iterator[str]:
    """Yield the indented blocks of a document, without their indentation."""
    for found in BLOCK.findall(path.read_text()):
        text = dedent(found).strip("\n")
        if text:
            yield text


def is_shell(block: str) -> bool:
    return block.removeprefix("$ ").partition(" ")[0] in PROGRAMS


def statements(block: str) -> Iterator[str]:
    """Yield the statements of a block, one with a here document as a whole."""
    lines = iter(block.splitlines())
    for line in lines:
        statement = line.removeprefix("$ ")
        if "<<'END'" in line:
            while (more := next(lines)) != "END":
                statement += f"\n{more}"
            statement += "\nEND"
        if block.startswith("$ ") and not line.startswith("$ "):
            continue  # what the command prints
        if is_shell(statement):  # a block may go on in Python
            yield statement


def plain(statement: str) -> list[str] | None:
    """Return the words of a command of ours; None where only a shell understands the statement."""
    if not statement.startswith("trailgate") or re.search(
        r"[|<>;&]", re.sub(r"'[^']*'", "", statement)
    ):
        return None
    return shlex.split(statement, comments=True)[1:]


@contextmanager
def patched_stdin() -> Iterator[None]:
    """Let standard input be empty."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.StringIO())
        yield


def obeyed(statement: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run a statement, here where it is one command of ours."""
    words = plain(statement)
    # The session of other tests does not know the environment that a store is named in.
    apart = "--master" in statement and "s3://" in statement
    if words is not None and not apart:
        with patched_stdin():
            code = run(words)
        assert code == 0, (statement, capsys.readouterr())
        return
    script = f'set -e\ntrailgate() {{ "{sys.executable}" -m trailgate "$@"; }}\n{statement}'
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (statement, done.stderr)


def shell_blocks(path: Path) -> list[str]:
    return [block for block in blocks(path) if is_shell(block)]


def readme() -> None:
    """Properties are in the files that the text names; the rest is given."""
    for block in blocks(ROOT / "README.md"):
        kind = re.match(r"parser\.type=(xml|fixed)\n", block)
        if kind:
            write(f"dirprm/{kind[1]}.properties", block + "\n")
    write("dirdef/account.cpy", HEADER + ACCOUNT)
    write("ACCOUNT.cpy", ACCOUNT)
    write("data/1", "1234NAMED ".encode("cp037"))
    write("xml/1.xml", XML)
    write("repaired.jsonl", '{"body": "I,MY.TABLE,2026-01-05 09:00:00,3,repaired"}\n')


def copybook() -> None:
    readme()


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
    "README.md": readme,
    "cli.md": cli,
    "copybook.md": copybook,
    "json.md": json_messages,
    "logdump.md": logdump,
    "publications.md": publications,
    "stores.md": stores,
}


def write(name: str, content: str | bytes) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def in_reach(path: Path, request: pytest.FixtureRequest) -> None:
    """Start the server that a document's addresses name."""
    if "s3://" in "".join(shell_blocks(path)):
        request.getfixturevalue("s3_server")


def run_document(path: Path, capsys: pytest.CaptureFixture[str], *, on_spark: bool) -> None:
    GIVEN.get(path.name, lambda: None)()
    for block in shell_blocks(path):
        for statement in statements(block):
            if BROKERS.search(statement):
                continue
            if ("--master" in statement) is on_spark or (on_spark and not plain(statement)):
                obeyed(statement, capsys)


@pytest.mark.parametrize(
    "path", [path for path in DOCUMENTS if shell_blocks(path)], ids=lambda path: path.name
)
def test_commands_of_a_document_run(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(tmp_path)
    in_reach(path, request)
    run_document(path, capsys, on_spark=False)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize(
    "path",
    [path for path in DOCUMENTS if any("--master" in block for block in shell_blocks(path))],
    ids=lambda path: path.name,
)
def test_commands_of_a_document_run_on_spark(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(tmp_path)
    in_reach(path, request)
    run_document(path, capsys, on_spark=True)


def test_the_first_python_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run_document(ROOT / "README.md", capsys, on_spark=False)
    (code,) = [b for b in blocks(ROOT / "README.md") if b.startswith("import trailgate")]
    names: dict[str, object] = {}
    exec(code, names)

    assert str(names["parsed"].problems) == "()"  # type: ignore[attr-defined]


def test_every_command_line_of_the_documents_is_run() -> None:
    """A line that begins with our program is in a block that runs."""
    ours = re.compile(r"^ {4,}(?:\$ )?(trailgate .*|pip .*|make .*)$", re.MULTILINE)
    for path in DOCUMENTS:
        run_here = [s for block in shell_blocks(path) for s in statements(block)]
        for line in ours.findall(path.read_text()):
            if not line.startswith(ELSEWHERE):
                assert any(line in one for one in run_here), (path.name, line)
