"""Whole sessions as files: typed lines begin with ``>``, and the printed lines follow them.

A file's first line says why it is there, its second which trail of ``trails`` is open.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from logdump.trails import TRAILS
from trailgate.logdump.conversation import Conversation

CASES = sorted(Path(__file__).parent.glob("cases/*.txt"))
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def printed_again(case: Path, folder: Path) -> str:
    """Return the session of a case as it is printed now."""
    why, trail, *lines = case.read_text().splitlines()
    path = folder / "ot000000000"
    path.write_bytes(TRAILS[trail.removeprefix("-- trail: ")]())
    talk = Conversation(lambda: NOW)
    list(talk.answer(f"OPEN {path}"))
    printed = [why, trail]
    for line in lines:
        if line.startswith("> "):
            printed += [line, *talk.answer(line.removeprefix("> "))]
    talk.close()
    return "\n".join(line.replace(f"{folder}/", "dirdat/") for line in printed) + "\n"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_a_session_prints_the_expected_output_of_its_file(case: Path, tmp_path: Path) -> None:
    assert case.read_text().startswith("-- why: ")
    assert printed_again(case, tmp_path) == case.read_text()
