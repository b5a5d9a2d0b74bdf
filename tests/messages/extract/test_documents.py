"""The page about Extract parameter files names all that the code knows, and of the right kind."""

from __future__ import annotations

import re
from pathlib import Path

from trailgate.expressions.environment_items import ITEMS
from trailgate.expressions.extract_files import CLAUSES, OBEYED
from trailgate.expressions.functions import FUNCTIONS
from trailgate.expressions.unsupported_of_extract import NOTED, REASONS, REFUSED, TRANSACTION_LOG

PAGE = (Path(__file__).parents[3] / "docs/extract.md").read_text()
ROWS = re.findall(r"^\| ([A-Z][^|]*) \| (obeyed|noted|refused) \|", PAGE, re.MULTILINE)


def words(kind: str) -> set[str]:
    return {word for names, of in ROWS if of == kind for word in re.findall(r"[A-Z0-9_]+", names)}


def test_each_parameter_has_its_kind() -> None:
    log = {"TRANLOGOPTIONS"}
    noted = {name for name, row in TRANSACTION_LOG.items() if row.noted}
    refused = {name for name, row in TRANSACTION_LOG.items() if row.refused}
    assert words("obeyed") == OBEYED
    assert words("noted") == set(NOTED) | noted | log
    assert words("refused") == set(REFUSED) | refused | log


def test_options_functions_and_items_are_named() -> None:
    for name in (*CLAUSES, *REASONS):
        assert re.search(rf"\b{name}\b", PAGE), name
    for name in FUNCTIONS:
        assert f"@{name}" in PAGE
    for group, items in ITEMS.items():
        assert all(re.search(rf"\b{word}\b", PAGE) for word in (group, *items))
