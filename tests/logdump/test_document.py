"""The sessions of docs/logdump.md are what Logdump prints for the demo's trail.

``python tests/logdump/test_document.py`` writes them anew.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path

import pytest

from trailgate.cli.commands.demo import unpack
from trailgate.cli.main import run
from trailgate.logdump.conversation import Conversation
from trailgate.storage.writing import file_headers

DOCUMENT = Path(__file__).parents[2] / "docs/logdump.md"
PROMPT = re.compile(r"Logdump \d+ >(.*)")
FENCE = "```"
# What a file header has of the machine decides where the first record begins.
MACHINE = os.uname_result(("Linux", "shop", "6.1", "1", "x86_64"))
NOW = datetime(2026, 1, 8, tzinfo=UTC)


def replayed(text: str) -> str:
    """Return the document with the answers that its commands have now; the demo's trail is in the working folder."""
    lines, talk = text.split("\n"), Conversation(lambda: NOW)
    written: list[str] = []
    at = 0
    while at < len(lines):
        if lines[at].startswith("cp "):  # the commands that damage a copy
            subprocess.run("\n".join(lines[at : at + 2]), shell=True, check=True)
        if lines[at].startswith("$ trailgate "):
            written += [lines[at], *_printed(shlex.split(lines[at])[2:])]
            at = lines.index(FENCE, at)
            continue
        found = PROMPT.fullmatch(lines[at])
        if found is None:
            written.append(lines[at])
            at += 1
            continue
        if lines[at].startswith("Logdump 1 >"):
            talk.close()
            talk = Conversation(lambda: NOW)
        written.append(f"{talk.prompt}{found[1]}")
        written += [line.rstrip() for line in talk.answer(found[1])]
        at += 1
        while lines[at] != FENCE and not PROMPT.fullmatch(lines[at]):
            at += 1
        while lines[at] == FENCE and not written[-1]:  # as the last line of an answer may be
            written.pop()
    talk.close()
    return "\n".join(written)


def _printed(arguments: list[str]) -> list[str]:
    """Return what a command of the shell prints."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        assert run(arguments) == 0
    return printed.getvalue().splitlines()


def demo_trail(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the demo's trail in a folder, as on a machine of fixed names, and go there."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(os, "uname", lambda: MACHINE)
    monkeypatch.setattr(file_headers, "_uri", lambda *_: "uri:shop::demo")
    unpack(Path("demo"))
    assert run(["demo", "--no-spark"]) == 0


def test_the_sessions_of_the_document_are_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    demo_trail(tmp_path, monkeypatch)
    text = DOCUMENT.read_text()
    assert replayed(text) == text


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        demo_trail(Path(sys.argv[1]), patch)
        DOCUMENT.write_text(replayed(DOCUMENT.read_text()))
