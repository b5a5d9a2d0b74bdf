"""Every case in ``cases/*.toml``: XML publications, and the operations or errors that they give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from message_cases import Case, batch_of, cases_of
from publication_files import captured, xml_publications


@pytest.mark.parametrize("case", cases_of(Path(__file__).parent / "cases"))
def test_case(case: Case) -> None:
    found = captured(xml_publications(case["properties"]), batch_of(case))

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
