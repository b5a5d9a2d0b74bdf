"""``trailgate logdump``: commands as options, on standard input and at a terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sample_trail import Op, write_trail
from trailgate.cli.main import run
from trailgate.logdump.completion import make_completer
from trailgate.logdump.conversation import Conversation
from trailgate.logdump.times import EPOCH


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"{write_trail(tmp_path / 'ot', [[[Op('I', 1, 'a'), Op('U', 1, 'b')]]])}000000000"


def test_commands_are_given_as_options(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logdump", file, "-c", "GHDR ON", "--command", "N"]) == 0

    out = capsys.readouterr().out
    assert out.startswith(f"Current LogTrail is {file}\nGhdr set to On\n____")
    assert "Name: MY.ORDERS" in out


def test_commands_come_from_standard_input(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"OPEN {file}\n\nN 2\nEXIT\nNOT READ\n"))

    assert run(["logdump"]) == 0

    out = capsys.readouterr().out
    assert out.count("Name: MY.ORDERS") == 2
    assert "NOT READ" not in out


def test_json_is_one_object_a_result(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(["logdump", file, "--json", "-c", "N 2", "-c", "POS 0; COUNT DETAIL", "-c", "EXIT"])
        == 0
    )

    opened, first, second, _, counts, end = map(json.loads, capsys.readouterr().out.splitlines())
    assert (opened["result"], opened["path"]) == ("note", file)
    assert (first["result"], first["command"], first["type"]) == ("record", "N 2", "Insert")
    assert first["images"][0]["columns"][1]["text"] == "....a"
    assert [token["name"] for token in first["ggs_tokens"]] == ["LOGCSN", "TRANID"]
    assert first["rba"] + first["length"] == second["rba"]
    assert counts["types"] == {"Insert": 1, "FieldComp": 1}
    assert counts["tables"]["MY.ORDERS"]["records"] == 2
    assert end["result"] == "goodbye"


def test_the_file_header_is_an_object_too(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logdump", file, "--json", "-c", "FILEHEADER ON", "-c", "N"]) == 0

    *_, shown = map(json.loads, capsys.readouterr().out.splitlines())
    assert (shown["result"], shown["byte_order"]) == ("file_header", "big")
    assert shown["header"]["order"] == "big"
    assert shown["header"]["trail"]["signature"] == "47470d0a544c0a0d"


def test_a_failure_is_reported_and_sets_the_exit_code(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["logdump", file, "-c", "POS 3", "-c", "N", "-c", "POS 0", "-c", "N"]) == 1

    out = capsys.readouterr().out
    assert "error: a record must begin with 47 01" in out
    assert "byte 3, bytes" in out
    assert "Name: MY.ORDERS" in out


def test_a_failure_is_an_object_too(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["logdump", file, "--json", "-c", "POS 3", "-c", "N"]) == 1

    failure = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (failure["result"], failure["kind"]) == ("error", "DecodeError")
    assert failure["where"]["offset"] == 3


def test_a_terminal_has_numbered_prompts_editing_and_completion(file: str, tmp_path: Path) -> None:
    lines = [b"GHDR ON\r", b"N\r", b"FC GHDR\r", b"\x7f\x7fOFF\r", b"nosuch"]
    typed = [(PROMPT, line) for line in lines]
    typed += [(b"nosuch", CTRL_C), (PROMPT, b"DETAIL D\t\r"), (PROMPT, b"\x04")]
    shown = _at_terminal(["logdump", file], typed, tmp_path)

    assert "Logdump 2 >" in shown
    assert "Ghdr set to On" in shown
    assert "Ghdr set to Off" in shown
    history = (tmp_path / ".trailgate_logdump_history").read_text().splitlines()
    assert history == ["GHDR ON", "N", "FC GHDR", "GHDR OFF", "DETAIL DATA"]


CTRL_C = b"\x03"
PROMPT = rb"Logdump \d+ >"
# Makes the terminal that it gets as standard input its own, so that Ctrl-C interrupts it, even if what runs the tests ignores it.
AT_TERMINAL = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "trailgate", *sys.argv[1:]])
"""


def _at_terminal(arguments: list[str], typed: list[tuple[bytes, bytes]], home: Path) -> str:
    """Run the program at a terminal, type each text once what is before it is shown, and return all that is shown."""
    mine, its = pty.openpty()
    environment = {**os.environ, "HOME": str(home), "TERM": "dumb", "INPUTRC": os.devnull}
    command = [sys.executable, "-c", AT_TERMINAL, *arguments]
    shown = b""
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=environment) as process:
        os.close(its)
        try:
            for expected, text in typed:
                before = len(shown)
                while not re.search(expected, shown[before:]):
                    shown += os.read(mine, 4096)
                if text == CTRL_C:  # Python's readline sees a signal only while it waits for a key
                    time.sleep(0.5)
                os.write(mine, text)
            while more := os.read(mine, 4096):
                shown += more
        except OSError:  # the program has ended
            pass
        finally:
            os.close(mine)  # which ends the program in any case
    assert process.returncode == 0, shown
    return shown.decode()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("SCANFORT", ["SCANFORTIME", "SCANFORTYPE"]),
        ("GHDR ", ["ON", "OFF"]),
        ("ghdr on; DETAIL d", ["DATA"]),
        ("FILTER INCLUDE GG", ["GGSTOKEN"]),
        ("HELP NEXTT", ["NEXTTRAIL"]),
        ("NOSUCH x", []),
    ],
)
def test_the_tab_key_offers_what_may_follow(typed: str, offered: list[str]) -> None:
    talk = Conversation(lambda: EPOCH)

    assert make_completer(talk.session)(typed) == offered


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("SCANFORTYPE Ins", ["Insert"]),
        ("sft insert, my", ["MY.ORDERS"]),
        ("FILTER INCLUDE RECTYPE fieldc", ["FieldComp"]),
        ("FILTER INCLUDE FILENAME my.", ["MY.ORDERS"]),
        ("SFTS 2026-01-01, M", ["MY.ORDERS"]),
        ("COUNT DETAIL, FILE ", ["MY.ORDERS"]),
    ],
)
def test_the_tab_key_offers_tables_and_types(file: str, typed: str, offered: list[str]) -> None:
    talk = Conversation(lambda: EPOCH)
    list(talk.answer(f"OPEN {file}"))

    assert make_completer(talk.session)(typed) == offered


def test_the_tab_key_passes_over_damage(file: str) -> None:
    Path(file).write_bytes(b"\xee" * 5000)
    talk = Conversation(lambda: EPOCH)
    list(talk.answer(f"OPEN {file}"))

    assert make_completer(talk.session)("SFT I, M") == []


def test_the_tab_key_offers_files(tmp_path: Path) -> None:
    (tmp_path / "dirdat").mkdir()
    (tmp_path / "dirdat/ot000000000").touch()
    talk = Conversation(lambda: EPOCH)
    talk.session.folder = str(tmp_path)
    complete = make_completer(talk.session)

    assert complete("OPEN dir") == ["dirdat/"]
    assert complete("OPEN dirdat/o") == ["dirdat/ot000000000"]
    assert complete(f"OPEN {tmp_path}/d") == [f"{tmp_path}/dirdat/"]
    assert complete("OPEN nowhere/o") == []


def test_a_prefix_opens_the_first_file_of_the_trail(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["logdump", file.removesuffix("000000000"), "-c", "N"]) == 0
    assert f"Current LogTrail is {file}" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["ot000000000", "with space", "it's; here", 'a "b"'])
def test_any_file_name_and_address_can_be_given(
    name: str, file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "named" / name
    path.parent.mkdir()
    path.write_bytes(Path(file).read_bytes())

    assert run(["logdump", str(path), "-c", "N"]) == 0
    assert run(["logdump", f"file://{path}", "-c", "N"]) == 0
    assert capsys.readouterr().out.count("Name: MY.ORDERS") == 2
