"""Every case in ``cases/*.toml``: properties and messages, and the operations or errors that they give."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from json_messages import json_capture
from message_cases import Case, check, together
from xml_files import DEFINITIONS

CASES = Path(__file__).parent / "cases"


def _cases() -> Iterator[Any]:
    for path in sorted(CASES.glob("*.toml")):
        file = tomllib.loads(path.read_text())
        for case in file["case"]:
            case["properties"] = together(file["properties"], case.get("properties", ""))
            marks = [pytest.mark.assumed] if case.get("assumed") else []
            yield pytest.param(case, id=f"{path.stem}: {case['name']}", marks=marks)


@pytest.mark.parametrize("case", list(_cases()))
def test_case(case: Case) -> None:
    properties = f"parser.type=json\n{case['properties']}"
    check(case, json_capture(properties, DEFINITIONS.read_text()))
