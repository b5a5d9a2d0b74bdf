"""Every case in ``cases/*.toml``: messages and properties, and the operations or errors they give.

``extract`` are lines of an Extract parameter file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from held_captures import SHOP, held_capture
from message_cases import Case, cases_of, check
from trailgate.expressions.extract_files import parse_extract


@pytest.mark.parametrize("case", cases_of(Path(__file__).parent / "cases"))
def test_case(case: Case) -> None:
    lines = f"EXTRACT test\nVAM vam, PARAMS a.properties\n{case.get('extract', '')}\n"
    properties = f"parser.type=delim\ndelim.sourcedefs=shop.def\n{case['properties']}"

    check(case, held_capture(properties, {"shop.def": SHOP}, parse_extract(lines).rules))
