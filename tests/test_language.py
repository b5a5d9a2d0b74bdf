"""Phrases that do not read well in English stay out of sources and documents.

Each row is a pattern and what to write instead. ``language_exceptions.toml`` counts, for each file, the phrases that are still
there; it only shrinks. After removing some, or to see them: ``python tests/test_language.py``, which writes it anew.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

ROOT: Final = Path(__file__).parents[1]
EXCEPTIONS: Final = Path(__file__).with_name("language_exceptions.toml")
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
    }
)


def files() -> list[Path]:
    """Return all sources and documents; decision records are not rewritten."""
    return sorted(
        [
            *(ROOT / "src").rglob("*.py"),
            *ROOT.glob("*.md"),
            *(ROOT / "docs").glob("*.md"),
            *(ROOT / "docs/reference").glob("*.md"),
        ]
    )


def found(path: Path) -> list[str]:
    """Return the phrases of a file, each with its line, its text and what to write instead."""
    name, text = path.relative_to(ROOT).as_posix(), path.read_text()
    text = re.sub(
        r"\btest_\w+|\b\w+\.toml: [^`]*`", "", text
    )  # names of tests and cases are theirs
    return [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]!r}: {instead}"
        for pattern, instead in PHRASES.items()
        for match in re.finditer(pattern, text)
    ]


def counts() -> dict[str, int]:
    """Return the number of phrases of each file that has any."""
    numbers = {path.relative_to(ROOT).as_posix(): len(found(path)) for path in files()}
    return {name: number for name, number in numbers.items() if number}


def test_no_phrase_returns() -> None:
    allowed = tomllib.loads(EXCEPTIONS.read_text())
    worse = [
        line
        for path in files()
        if len(lines := found(path)) > allowed.get(path.relative_to(ROOT).as_posix(), 0)
        for line in lines
    ]

    assert worse == []


def test_the_exceptions_only_shrink() -> None:
    """If this fails, files have become better: python tests/test_language.py."""
    allowed, now = tomllib.loads(EXCEPTIONS.read_text()), counts()

    assert [name for name, number in allowed.items() if number > now.get(name, 0)] == []


if __name__ == "__main__":
    EXCEPTIONS.write_text("".join(f'"{name}" = {number}\n' for name, number in counts().items()))
    print("\n".join(line for path in files() for line in found(path)))  # noqa: T201
