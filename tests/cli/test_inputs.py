"""Promises about where a capture reads and writes: pipes, compressed files, and targets that are no prefix."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
from pathlib import Path

import pytest

from trailgate.cli.commands.demo import unpack
from trailgate.cli.main import run

GIVEN = ["capture", "--properties", "dirprm/shop.properties", "--to", "dirdat/ot"]


@pytest.fixture(autouse=True)
def _in_the_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpack(tmp_path / "shop")
    monkeypatch.chdir(tmp_path / "shop")


def typed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Let standard input give bytes."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


MESSAGE = Path("messages/0001-customers.txt")


@pytest.mark.parametrize(("ending", "packed"), [("", False), (".gz", True)])
def test_standard_input_is_a_file_that_is_recognised_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, ending: str, packed: bool
) -> None:
    data = MESSAGE.read_bytes()
    for expected in ("1 message, 1 transaction, 5 operations", "1 file skipped: captured before"):
        typed(monkeypatch, gzip.compress(data, mtime=0) if packed else data)
        assert run([*GIVEN, "--from", f"-{ending}"]) == 0
        assert expected in capsys.readouterr().out


def test_standard_input_that_is_named_twice_is_read_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, MESSAGE.read_bytes())

    assert run([*GIVEN, "--from", "-", "--from", "messages/0003-order.txt", "--from", "-"]) == 0

    assert "2 messages, 2 transactions, 6 operations" in capsys.readouterr().out


def test_a_pipe_is_read_whole(capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_bytes(MESSAGE.read_bytes()))
    writer.start()
    assert run([*GIVEN, "--from", "pipe", "--from", "messages/0003-order.txt"]) == 0
    writer.join()
    assert "2 messages, 2 transactions, 6 operations" in capsys.readouterr().out


def test_a_bad_message_of_standard_input_names_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, b"I,NO.TABLE,2026-01-01 00:00:00,T-9\n")
    assert run([*GIVEN, "--from", "-"]) == 1
    assert "(standard input, record 1" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", None)
    assert run([*GIVEN, "--from", "-"]) == 1
    assert "standard input is closed" in capsys.readouterr().err


COPYBOOK = "       01 R.\n         05 A PIC 9(3) COMP-3.\n"
XML = """\
parser.type=xml
xml.userdefs.tables=MY.T
xml.userdefs.MY.T.columns=ID
xml.userdefs.MY.T.ID=vchar 10 key
xml.rules=a
a.type=tx
a.match=/a
a.subrules=b
b.type=op
b.match=./b
b.schemaandtable=@t
b.optype=@k
"""
CAPTURE = [*GIVEN, "--from"]
QUARANTINED = ["--on-error", "quarantine"]
RECORDS = ["--copybook", "a.cpy", "--format", "json"]


@pytest.mark.parametrize(
    ("given", "data"),
    [
        ([*CAPTURE, "-"], b"bad\n"),
        ([*CAPTURE, "-.jsonl"], b"{\n"),
        ([*CAPTURE, "-.gz"], b"not gzip"),
        ([*CAPTURE, "-", *QUARANTINED], b"bad\n"),
        ([*CAPTURE, "-", *QUARANTINED, "--message-per", "line"], b"bad\nbad\n"),
        ([*CAPTURE, "-", "--dry-run"], b"bad\n"),
        ([*CAPTURE, "-", "--from", "messages"], b""),
        (["init", "--from", "-"], b""),
        (["explain", "-", "--properties", "x.properties"], b"<a>"),
        (["records", "-", *RECORDS], b"bad"),
        (["records", "-", *RECORDS], b""),
        (["records", "-", *RECORDS, "--option", "fileColumn=true"], b"\x12\x3c"),
        (["records", "-", "--copybook", "a.cpy", "--verify", "--json"], b"bad"),
        (["records", "-", "--copybook", "a.cpy", "--write", "--to", "out"], b"{\n"),
    ],
    ids=str,
)
@pytest.mark.parametrize("piped", [False, True])
def test_no_text_names_the_temporary_file_of_standard_input_or_of_a_pipe(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    given: list[str],
    data: bytes,
    *,
    piped: bool,
) -> None:
    Path("a.cpy").write_text(COPYBOOK)
    Path("x.properties").write_text(XML)
    if piped:
        if "-" not in given or given[0] == "explain" or "--write" in given:
            pytest.skip("the format of a pipe is not named, and explain reads a file as it is")
        reading, writing = os.pipe()
        os.write(writing, data)
        os.close(writing)
        given = [f"/dev/fd/{reading}" if one == "-" else one for one in given]
    typed(monkeypatch, data)

    run(given)

    if piped:
        os.close(reading)
    printed = capsys.readouterr()
    held = Path("dirdat/ot.quarantine.jsonl")
    texts = [*caplog.messages, printed.out, printed.err, held.read_text() if held.exists() else ""]
    assert "trailgate-" not in "".join(texts)
    assert ("a pipe" if piped else "standard input") in "".join(texts)
    for line in texts[-1].splitlines():
        assert json.loads(line)["source"] == ("a pipe" if piped else "standard input")


def test_records_and_messages_are_read_from_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("a.cpy").write_text("       01 R.\n         05 A PIC X(3).\n")
    typed(monkeypatch, b"\xc1\xc2\xc3")
    assert run(["records", "-", "--copybook", "a.cpy", "--format", "csv"]) == 0
    assert capsys.readouterr().out == "A\nABC\n"


def test_a_quarantined_message_of_a_compressed_file_is_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    good = Path("messages/0003-order.txt").read_bytes()
    bad = [good.replace(b"SHOP_ORDERS", b"NO_%d" % i) for i in range(3)]
    lines = [good, bad[0], good, bad[1], *[good] * 2000, bad[2], good]
    Path("in.txt.gz").write_bytes(gzip.compress(b"".join(lines)))
    given = [*GIVEN, "--from", "in.txt.gz", "--message-per", "line", "--on-error", "quarantine"]
    assert run(given) == 0
    assert "quarantined: 3 messages" in capsys.readouterr().out
    kept = Path("dirdat/ot.quarantine.jsonl").read_text().splitlines()
    assert [f"NO_{i}" in line for i, line in enumerate(kept)] == [True] * 3


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (
            "dirdat",
            "dirdat is a folder, not a prefix of a trail. Name a prefix in it, such as dirdat/ot",
        ),
        ("dirdat/", "is a folder"),
        ("new/", "is a folder"),
        ("ftp://host/ot", "a trail is not written to ftp:// addresses"),
        ("http://host/ot", "a trail is not written to http:// addresses"),
        ("/", "not a prefix"),
    ],
)
def test_a_target_that_is_no_prefix_is_refused_before_anything_is_made(
    capsys: pytest.CaptureFixture[str], target: str, said: str
) -> None:
    before = sorted(Path().rglob("*"))
    assert (
        run(
            [
                "capture",
                "--properties",
                "dirprm/shop.properties",
                "--from",
                "messages",
                "--to",
                target,
            ]
        )
        == 2
    )
    assert said in capsys.readouterr().err
    assert sorted(Path().rglob("*")) == before
    assert run(["check", "dirdat", "--salvage", target]) in {1, 2}
    assert sorted(Path().rglob("*")) == before


def test_a_target_may_be_a_file_address(capsys: pytest.CaptureFixture[str]) -> None:
    target = f"file://{Path.cwd()}/dirdat/xt"
    assert (
        run(
            [
                "capture",
                "--properties",
                "dirprm/shop.properties",
                "--from",
                "messages",
                "--to",
                target,
            ]
        )
        == 0
    )
    assert Path("dirdat/xt000000000").exists()
    assert not Path("file:").exists()
