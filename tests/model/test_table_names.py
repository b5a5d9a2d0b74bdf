"""Patterns of table names, compared with a recursion over their characters."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trailgate.model.table_names import TablePatterns

LETTERS = "aAb_"


def fits(pattern: str, name: str) -> bool:
    """Return whether a name has the form of a pattern, trying each length of each wildcard."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(fits(pattern[1:], name[at:]) for at in range(len(name) + 1))
    return bool(name) and pattern[0] in ("?", name[0]) and fits(pattern[1:], name[1:])


@given(st.text(f"{LETTERS}*?", min_size=1, max_size=8), st.text(LETTERS, min_size=1, max_size=9))
@example("*a*b", "aab")
@example("a*a", "a")
@example("*?a", "aa")
@example("**a**", "bab")
@example("a?*?b", "aab_b")
def test_a_pattern_fits_what_its_wildcards_can_stand_for(pattern: str, name: str) -> None:
    assert TablePatterns((pattern,)).fits(name) == fits(pattern.lower(), name.lower())


@pytest.mark.parametrize("end", ["", "B"])
def test_a_pattern_of_many_wildcards_is_fast_on_a_long_name(end: str) -> None:
    """With wildcards that try each length it would not end."""
    assert TablePatterns((f"HR.{'*A' * 30}*{end}",)).fits(f"HR.{'A' * 200}") == (end == "")


@pytest.mark.parametrize("name", ["HR.A*", "HR.A?B", "A,B", '"A.B"', "*"])
def test_an_exact_name_fits_itself_alone(name: str) -> None:
    exact = TablePatterns.exactly(name)

    for fits_name in (exact.fits, exact.fits_end):
        assert fits_name(name)
        assert fits_name(name.lower())
        assert not fits_name("HR.AXB")
        assert not fits_name(f"{name}2")
        assert not fits_name(f"CAT.{name}")
