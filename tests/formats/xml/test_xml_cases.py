"""Every case in ``cases/*.toml``: rules and messages, and the operations or errors that they give.

``rules`` are properties; those of the file come before those of a case. The definitions are ``shop.def``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from message_cases import Case, check, together
from xml_files import xml_capture

CASES = Path(__file__).parent / "cases"


def _cases() -> Iterator[Any]:
    for path in sorted(CASES.glob("*.toml")):
        file = tomllib.loads(path.read_text())
        for case in file["case"]:
            case["rules"] = together(file.get("rules", ""), case.get("rules", ""))
            yield pytest.param(case, id=f"{path.stem}: {case['name']}")


@pytest.mark.parametrize("case", list(_cases()))
def test_case(case: Case) -> None:
    check(case, xml_capture(case["rules"]))
