"""Every case in ``cases/*.toml``: rules and messages, and the operations or errors that they give."""

from __future__ import annotations

from pathlib import Path

import pytest

from held_captures import xml_capture
from message_cases import Case, cases_of, check


@pytest.mark.parametrize("case", cases_of(Path(__file__).parent / "cases"))
def test_case(case: Case) -> None:
    check(case, xml_capture(case["properties"]))
