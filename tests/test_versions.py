"""The bounds of ``pyproject.toml`` are what was tried: ``tests/versions.toml`` has it, written by ``make test-pythons``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT: Final[Mapping[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TRIED: Final[list[dict[str, Any]]] = tomllib.loads((ROOT / "tests/versions.toml").read_text())[
    "tried"
]
CLASSIFIER: Final = "Programming Language :: Python :: 3."
# They are compiled, have native parts, or are built on one another's: each release may differ.
BOUNDED: Final = ("numba", "numpy", "pandas", "pyarrow", "pyspark")
# Series that are known, and were not tried.
HELD_BACK: Final = {"pandas": "3.1"}


def _requirements() -> dict[str, Requirement]:
    """Return what is asked for, of the packages that were tried."""
    strings = chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    found: dict[str, Requirement] = {}
    for requirement in map(Requirement, strings):
        found.setdefault(canonicalize_name(requirement.name), requirement)
    return {name: found[name] for name in TRIED[0]["versions"]}


REQUIREMENTS: Final = _requirements()


def _versions(package: str, bounds: str) -> list[Version]:
    return [Version(row["versions"][package]) for row in TRIED if row["bounds"] == bounds]


def _bound(specifier: SpecifierSet, operator: str) -> Version | None:
    return next((Version(part.version) for part in specifier if part.operator == operator), None)


def _next_of(version: Version, parts: int) -> tuple[int, ...]:
    """Return the first release beyond the series of a version, in so many parts: of 2.5.5, in two, 2.6."""
    *series, last = version.release[:parts]
    return (*series, last + 1)


@pytest.mark.parametrize("package", REQUIREMENTS)
def test_the_lower_bound_was_tried(package: str) -> None:
    oldest = _versions(package, "oldest")
    if not oldest:
        pytest.skip("the oldest packages were not tried yet together: make test-pythons")
    (tried,) = oldest

    assert _bound(REQUIREMENTS[package].specifier, ">=") == tried


@pytest.mark.parametrize("package", REQUIREMENTS)
def test_the_upper_bound_ends_the_series_of_the_newest_that_was_tried(package: str) -> None:
    bound = _bound(REQUIREMENTS[package].specifier, "<")
    newest = max(_versions(package, "newest"))

    if bound is None:
        assert package not in BOUNDED
    else:
        assert bound.release == _next_of(newest, len(bound.release))


def test_the_pythons_of_the_metadata_were_tried() -> None:
    named = [text for text in PROJECT["classifiers"] if text.startswith(CLASSIFIER)]
    minors = [Version(text.rpartition(" ")[2]).release for text in named]
    tried = [Version(row["python"]).release[:2] for row in TRIED if row["bounds"] == "newest"]
    asked = SpecifierSet(PROJECT["requires-python"])

    assert minors == tried == sorted(tried)
    assert _bound(asked, ">=") == Version(f"3.{minors[0][1]}")
    assert _bound(asked, "<") == Version(f"3.{minors[-1][1] + 1}")


@pytest.mark.skipif(
    "TRAILGATE_RELEASES" not in os.environ, reason="make test-pythons asks for newer releases"
)
@pytest.mark.parametrize("package", REQUIREMENTS)
def test_no_release_is_newer_than_what_was_tried(package: str) -> None:
    """A newer one is tried by ``make test-pythons``, after its bound in ``pyproject.toml`` was raised."""
    newest = max(Version(row["python"]) for row in TRIED).release
    python = ["--python-version", f"3.{newest[1]}"]
    asked = [sys.executable, "-m", "pip", "index", "versions", package, *python]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    released = re.search(r"\((.+)\)", done.stdout)
    if released is None:
        pytest.skip(f"no package registry is reached: {done.stderr.strip()[-200:]}")

    known = Version(HELD_BACK.get(package, "0")).release
    newer = Version(released[1])
    assert newer <= max(_versions(package, "newest")) or newer.release[: len(known)] == known
