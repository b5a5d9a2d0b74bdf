"""Every case in ``cases/*.toml``: properties and events, and the operations or errors that they give."""

from __future__ import annotations

from pathlib import Path

import pytest

from held_captures import SHOP, held_capture
from message_cases import Case, cases_of, check

CASES = Path(__file__).parent / "cases"
FILES = {"shop.def": SHOP, "types.def": (CASES / "types.def").read_text()}


@pytest.mark.parametrize("case", cases_of(CASES))
def test_case(case: Case) -> None:
    check(case, held_capture(f"parser.type=debezium\n{case['properties']}", FILES))
