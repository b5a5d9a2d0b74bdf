"""Every case in ``cases/*.toml``: messages and properties, and the operations or errors they give.

``operations`` are rows of the operations table as JSON, one a line; what a row does not name is
not compared, but a before or after image that it leaves out must be empty. ``fails`` says why
a case is known to fail.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from message_cases import NOW, Case, check
from trailgate.capture.capture import Capture
from trailgate.definitions.defgen import read_sourcedefs
from trailgate.expressions.extract_files import parse_extract
from trailgate.formats.delimited.options import delimited_options
from trailgate.messages.properties import parse_properties

CASES = Path(__file__).parent / "cases"
DEFINITIONS = read_sourcedefs((CASES / "shop.def").read_bytes())


def _cases() -> Iterator[Any]:
    for path in sorted(CASES.glob("*.toml")):
        file = tomllib.loads(path.read_text())
        for case in file["case"]:
            shared = {"extract": file.get("extract", ""), "common": file.get("properties", "")}
            known = case.get("fails", "")
            marks = [pytest.mark.xfail(strict=True, reason=known)] if known else []
            yield pytest.param(shared | case, id=f"{path.stem}: {case['name']}", marks=marks)


def capture_of(case: Case) -> Capture:
    own = case.get("properties", "").strip()
    names = [line.partition("=")[0] for line in own.splitlines()]
    common = [line for line in case["common"].splitlines() if line.partition("=")[0] not in names]
    lines = ["parser.type=delim", "delim.sourcedefs=shop.def", *common, own]
    options = delimited_options(parse_properties("\n".join(lines).encode()))
    extract = parse_extract(f"EXTRACT test\nVAM vam, PARAMS a.properties\n{case['extract']}\n")
    return Capture(options, DEFINITIONS, extract.rules, NOW)


@pytest.mark.parametrize("case", list(_cases()))
def test_case(case: Case) -> None:
    check(case, capture_of(case))
