"""Trails to be looked at in a browser: a plain one, and one whose texts are hostile."""

from __future__ import annotations

from pathlib import Path

from sample_trail import NOTES, Op, write_trail

HOSTILE = "<script>alert('x')</script>\"'&\x00\u202e"


def plain_trail(folder: Path) -> str:
    """Write a trail of two files and return its prefix."""
    first = [[Op("I", 1, "one"), Op("I", 2, "")], [Op("U", 1, None, "one"), Op("D", 2)]]
    second = [[Op("I", 7, "note", table=NOTES)], [Op("U", 1, "three"), Op("U", 3, "b", "a")]]
    return str(write_trail(folder / "aa", [first, second]))


def hostile_trail(folder: Path) -> str:
    """Write a trail whose texts are markup, and return its prefix."""
    return str(write_trail(folder / "hh", [[[Op("I", 1, HOSTILE), Op("U", 1, "x", HOSTILE)]]]))
