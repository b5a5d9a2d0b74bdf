"""What others printed with Logdump comes out the same, apart from spacing and capitals."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdump.sessions import answers, opened
from logdump.trails import TRAILS
from trailgate.logdump.result_output import text_lines

PRINTED = sorted(Path(__file__).parent.glob("printed/*.txt"))


def words(text: str) -> list[str]:
    return text.lower().split()


@pytest.mark.parametrize("case", PRINTED, ids=lambda case: case.stem)
def test_a_record_comes_out_as_it_was_printed(case: Path, tmp_path: Path) -> None:
    head, _, printed = case.read_text().partition("\n\n")
    asked = dict(line.removeprefix("-- ").split(": ", 1) for line in head.splitlines())
    session = opened(tmp_path, TRAILS[asked["trail"]]())

    results = answers(session, *asked["commands"].split("; "))

    lines = [line for result in results for line in text_lines(result)]
    shown = " ".join(words("\n".join(lines)))
    assert " ".join(words(printed)) in shown
