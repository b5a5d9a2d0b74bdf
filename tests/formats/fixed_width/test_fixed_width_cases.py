"""Every case in ``cases/*.toml``: properties, definitions and messages, and what they give.

``files`` are the definitions by name.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from held_captures import fixed_capture
from message_cases import Case, cases_of, check


@pytest.mark.parametrize("case", cases_of(Path(__file__).parent / "cases"))
def test_case(case: Case) -> None:
    check(case, fixed_capture(case["properties"], case["files"]))
