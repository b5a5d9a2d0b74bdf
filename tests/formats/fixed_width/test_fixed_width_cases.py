"""Every case in ``fixed/*.toml``: properties, definitions and messages, and what they give.

``files`` are the definitions by name; the rest is as in ``test_capture_cases``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixed_files import fixed_capture
from message_cases import NOW, Case, check, together

CASES = Path(__file__).parent / "cases"


def _cases() -> Iterator[Any]:
    for path in sorted(CASES.glob("*.toml")):
        file = tomllib.loads(path.read_text())
        for case in file["case"]:
            case["files"] = file["files"]
            case["properties"] = together(file.get("properties", ""), case.get("properties", ""))
            yield pytest.param(case, id=f"{path.stem}: {case['name']}")


@pytest.mark.parametrize("case", list(_cases()))
def test_case(case: Case) -> None:
    check(case, fixed_capture(case["properties"], case["files"], now=NOW))
