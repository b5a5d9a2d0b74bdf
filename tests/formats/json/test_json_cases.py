"""Every case in ``cases/*.toml``: properties and messages, and the operations or errors that they give."""

from __future__ import annotations

from pathlib import Path

import pytest

from held_captures import json_capture
from message_cases import Case, cases_of, check


@pytest.mark.parametrize("case", cases_of(Path(__file__).parent / "cases"))
def test_case(case: Case) -> None:
    check(case, json_capture(f"parser.type=json\n{case['properties']}"))
