"""Every case in ``cases/*.toml``: XML publications, and the operations or errors that they give."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from message_cases import Case, batch_of
from publication_files import captured, xml_publications

CASES = Path(__file__).parent / "cases"


def _cases() -> Iterator[Any]:
    for path in sorted(CASES.glob("*.toml")):
        for case in tomllib.loads(path.read_text())["case"]:
            yield pytest.param(case, id=f"{path.stem}: {case['name']}")


@pytest.mark.parametrize("case", list(_cases()))
def test_case(case: Case) -> None:
    capture = xml_publications(case.get("properties", ""))

    found = captured(capture, batch_of(case))

    empty: Case = {"before": {}, "after": {}}
    wanted = [empty | json.loads(line) for line in case.get("operations", "").split("\n") if line]
    rows = [{k: row[k] for k in want} for row, want in zip(found.rows, wanted, strict=False)]
    problems = case.get("problems", [])
    for (message, text), want in zip(found.problems, problems, strict=False):
        assert message == want["message"]
        for part in want["text"]:
            assert part in text
    assert rows == wanted
    assert [len(found.rows), len(found.problems)] == [len(wanted), len(problems)]
    for part in case.get("notes", []):
        assert any(part in note for note in found.notes), found.notes
    assert len(found.notes) == len(case.get("notes", []))
