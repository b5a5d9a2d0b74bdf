"""``trailgate logdump``: commands as options, on standard input and at a terminal."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from sample_trail import Op, write_trail
from trailgate.cli.main import run

pytest.importorskip("prompt_toolkit")

from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from trailgate.logdump import command as logdump
from trailgate.logdump.completion import make_completer
from trailgate.logdump.conversation import Conversation
from trailgate.logdump.syntax import EPOCH


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


def test_a_terminal_has_numbered_prompts_and_editing(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(logdump, "HISTORY", str(tmp_path / "history"))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    with create_pipe_input() as typed, create_app_session(input=typed, output=DummyOutput()):
        typed.send_text("GHDR ON\rN\rFC GHDR\r\x7f\x7fOFF\r\x04")
        assert run(["logdump", file]) == 0

    out = capsys.readouterr().out
    assert "Ghdr set to On" in out
    assert "Ghdr set to Off" in out
    assert "GHDR OFF" in (tmp_path / "history").read_text()


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
    found = make_completer(talk.session).get_completions(Document(typed), CompleteEvent())

    assert [completion.text for completion in found] == offered


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
    found = make_completer(talk.session).get_completions(Document(typed), CompleteEvent())

    assert [completion.text for completion in found] == offered


def test_the_tab_key_passes_over_damage(file: str) -> None:
    Path(file).write_bytes(b"\xee" * 5000)
    talk = Conversation(lambda: EPOCH)
    list(talk.answer(f"OPEN {file}"))

    assert (
        list(make_completer(talk.session).get_completions(Document("SFT I, M"), CompleteEvent()))
        == []
    )


def test_the_tab_key_offers_files(tmp_path: Path) -> None:
    (tmp_path / "ot000000000").touch()
    talk = Conversation(lambda: EPOCH)
    talk.session.folder = str(tmp_path)
    found = make_completer(talk.session).get_completions(Document("OPEN ot"), CompleteEvent())

    assert [completion.text for completion in found] == ["000000000"]


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
