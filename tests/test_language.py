"""Phrases that do not read well in English stay out of sources and documents.

Each row is a pattern and what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PHRASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        r"\b[Bb]ehind\b": "after",
        r"\bin front\b": "before",
        r"\b(?:is|are|was|were|be|been|unless|not) told\b": "given, known; by default",
        r"\b(?:tells|Tell)\b": "states, reports, returns; check",
        r"\bsays\b": "states, names",
        r"\bsets? aside\b": "quarantine",
        r"(?<![Tt]here )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b|matter\b|smaller\b|larger\b)\w": "is not a",
        r"\bstands?\b(?! for\b)": "is, starts at, is stored",
        r"\b(?:goes|go|going|gone|went) on\b": "continues",
        r"\btak(?:e|es|en|ing) (?:away|out)\b": "remove, exclude",
        r"\bbe it\b": "say what is meant",
        r"\b(?:broken|broke|breaks?|breaking) off\b": "interrupted, killed",
        r"\bat one place\b": "once",
        r"\bon its way\b": "leave it out",
        r"\bas such\b": "say what is meant, or leave it out",
        r"\bhand(?:s|ed)? on\b": "return, pass",
        r"\bone behind the other\b": "one after the other",
        r"\bbody else's\b": "name who it is",
        r"'s part\b": "say who does it",
        r"\b(?:the begin of|from the begin)\b": "the beginning of",
        r"\bfor the eye\b": "for reading",
        r"\b[Ll]eaf\b": "field, subclass",
        r"\b[Ll]ooked at\b": "examined, read",
        r"\b(?:left|[Ll]eaves?|[Ll]eaving) (?:it |them |one )?out\b": "omit, exclude, skip",
        r"\bnothing states\b": "is unknown",
    }
)


def files() -> list[Path]:
    """Return all sources and documents; decision records are not rewritten."""
    return sorted(
        [
            *(ROOT / "src").rglob("*.py"),
            *ROOT.glob("*.md"),
            *(ROOT / "docs").glob("*.md"),
            *(ROOT / "docs/tutorials").glob("*.md"),
            *(ROOT / "docs/howto").glob("*.md"),
            *(ROOT / "docs/reference").glob("*.md"),
        ]
    )


def found(path: Path) -> list[str]:
    """Return the phrases of a file, each with its line, its text and what to write instead."""
    name, text = path.relative_to(ROOT).as_posix(), path.read_text()
    text = re.sub(
        r"\btest_\w+(?:\[[^`]*\])?|\b\w+\.toml: [^`]*`", "", text
    )  # names of tests and cases are theirs
    return [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]!r}: {instead}"
        for pattern, instead in PHRASES.items()
        for match in re.finditer(pattern, text)
    ]


def test_no_phrase_returns() -> None:
    assert [line for path in files() for line in found(path)] == []
