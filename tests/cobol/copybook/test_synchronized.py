"""SYNC of groups, by compiler: IBM gives it to the items, GnuCOBOL does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from cobol.copybook.compiled_layouts import needs_cobc, printed
from trailgate.cobol.copybook.layouts import COMPILERS, BinarySizes, CobolDialect, CopybookField
from trailgate.cobol.copybook.reader import read_copybook

# Names are unique, so that the compiled program can print the length of each.
TEXTS = {
    "a record": """
       01  R SYNC.
           05  A PIC X.
           05  B PIC S9(9) COMP.
           05  G.
               10  C PIC X.
               10  D PIC S9(4) COMP.
""",
    "a group": """
       01  R.
           05  A PIC X.
           05  B PIC S9(9) COMP.
           05  G SYNC.
               10  C PIC X.
               10  D PIC S9(4) COMP.
               10  E COMP-2.
           05  F PIC S9(4) COMP.
""",
    "a table": """
       01  R.
           05  A PIC X.
           05  G SYNC OCCURS 3.
               10  C PIC X.
               10  D PIC S9(9) COMP.
           05  F PIC X.
""",
    "an item that begins a group": """
       01  R.
           05  A PIC X(5).
           05  G.
               10  C PIC S9(6) COMP SYNC.
           05  H REDEFINES G PIC X(4).
           05  F PIC X.
""",
    "an item that begins a table": """
       01  R.
           05  A PIC X(5).
           05  G OCCURS 3.
               10  C PIC S9(6) COMP SYNC.
               10  D PIC X.
           05  F PIC X.
""",
}
# By IBM's Language Reference, "SYNCHRONIZED clause" and "Slack bytes within records": the offset of each item.
IBM = {
    "a record": {"A": 0, "B": 4, "G": 8, "C": 8, "D": 10, "R": 12},
    "a group": {"A": 0, "B": 1, "G": 5, "C": 5, "D": 6, "E": 8, "F": 16, "R": 18},
    "a table": {"A": 0, "G": 1, "C": 1, "D": 4, "F": 25, "R": 26},
    "an item that begins a group": {"A": 0, "G": 8, "C": 8, "H": 8, "F": 12, "R": 13},
    "an item that begins a table": {"A": 0, "G": 8, "C": 8, "D": 12, "F": 32, "R": 33},
}


def layout(name: str, compiler: str) -> dict[str, CopybookField]:
    (found,) = read_copybook(TEXTS[name], dialect=CobolDialect(**COMPILERS[compiler]))
    return {field.name: field for field in found.root.walk()}


def places(name: str, compiler: str) -> dict[str, int]:
    """Return the offset of each item, and the length of the record."""
    fields = layout(name, compiler)
    return {n: f.size if n == "R" else f.offset for n, f in fields.items()}


@pytest.mark.parametrize("name", TEXTS)
def test_ibm_synchronizes_the_items_of_a_group(name: str) -> None:
    assert places(name, "ibm") == IBM[name]


@needs_cobc
@pytest.mark.parametrize("name", TEXTS)
def test_gnucobol_has_the_same_lengths(name: str, tmp_path: Path) -> None:
    fields = layout(name, "gnucobol")
    names = [name for name, field in fields.items() if field.occurs is None]

    found = printed(tmp_path, TEXTS[name], "-std=default", items=tuple(names))

    assert dict(zip(names, found, strict=True)) == {name: fields[name].size for name in names}


def test_sync_has_no_effect_on_the_smallest_numbers() -> None:
    fields = layout("a record", "micro-focus")
    assert [fields[name].offset for name in "ABCD"] == [0, 1, 5, 6]


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("compiler", ["fujitsu", "micro-focus"])
def test_others_synchronize_groups_as_ibm_does(name: str, compiler: str) -> None:
    """Assumed: group-sync; of Micro Focus with IBMCOMP."""
    dialect = CobolDialect(**{**COMPILERS[compiler], "binary_sizes": BinarySizes.IBM})

    (found,) = read_copybook(TEXTS[name], dialect=dialect)

    own = {field.name: field.offset for field in found.root.walk()} | {"R": found.size}
    assert own == IBM[name]
