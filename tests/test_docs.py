"""The documents name every option, and their links lead somewhere."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(path: Path) -> None:
    targets = [target.split("#")[0] for target in LINK.findall(path.read_text())]
    relative = [target for target in targets if target and "://" not in target]

    assert [target for target in relative if not (path.parent / target).exists()] == []


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs/decisions"
    listed = LINK.findall((folder / "README.md").read_text())

    assert sorted(listed) == sorted(page.name for page in folder.glob("0*.md"))


def test_the_operations_table_is_documented_whole() -> None:
    from trailgate.model.changes import OPERATIONS_SCHEMA, TYPED_COLUMNS  # noqa: PLC0415

    text = (ROOT / "docs/operations-table.md").read_text()

    assert [n for n in (*OPERATIONS_SCHEMA.names, *TYPED_COLUMNS) if f"`{n}`" not in text] == []


def test_the_list_of_modules_is_that_of_the_sources() -> None:
    names = runpy.run_path(str(ROOT / "tools/list_modules.py"))

    assert names["PAGE"].read_text("utf-8") == names["page"](), "run make modules"


def test_every_case_marked_as_assumed_is_listed() -> None:
    text = (ROOT / "docs/assumptions.md").read_text()
    cases = ROOT / "tests/trail/cases"
    marked = [p for p in cases.rglob("*.toml") if "assumed = true" in p.read_text()]
    names = [f"{p.parent.name}/{p.stem}" for p in marked]

    assert [name for name in names if f"`{name}`" not in text] == []


CITATION = re.compile(
    r"\b(trail format|capture properties|copybooks|event publishing) ((?:§[\d.]+(?:, | and | to )?)+)"
)
CITED = sorted(
    path
    for folder in ("src", "tests", "benchmarks", "docs")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".md", ".toml", ".txt"}
)


def headings(document: str) -> set[str]:
    """Return the numbers of a reference's sections."""
    path = ROOT / "docs/reference" / f"{document.replace(' ', '-')}.md"
    return set(re.findall(r"^#+ (\d+(?:\.\d+)*)\.? ", path.read_text(), re.MULTILINE))


def test_every_citation_of_the_reference_is_one_of_its_sections() -> None:
    known = {
        name: headings(name)
        for name in ("trail format", "capture properties", "copybooks", "event publishing")
    }
    cited = [
        (str(path.relative_to(ROOT)), name, number.rstrip("."))
        for path in CITED
        for name, numbers in CITATION.findall(path.read_text())
        for number in re.findall(r"§([\d.]+)", numbers)
    ]

    assert len(cited) > 100
    assert [row for row in cited if row[2] not in known.get(row[1], ())] == []


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs/reference").glob("*.md")), ids=lambda path: path.name
)
def test_sections_that_a_reference_names_within_itself_exist(path: Path) -> None:
    text = re.sub(CITATION, "", path.read_text())
    if numbers := re.findall(r"§(\d+(?:\.\d+)*)", re.sub(r"`[^`]*`", "", text)):
        assert set(numbers) <= headings(path.stem)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_that_a_document_names_exist(path: Path) -> None:
    named = re.findall(r"`((?:\w+/)+\w+\.(?:py|toml))\b", path.read_text())

    assert [
        name
        for name in named
        if not any((ROOT / folder / name).is_file() for folder in ("", "src/trailgate"))
    ] == []


def test_assumptions_that_a_document_names_are_rows() -> None:
    rows = tomllib.loads((ROOT / "src/trailgate/reference/assumptions.toml").read_text())
    known = {row["name"] for row in rows["assumptions"]}
    named = [
        (path.name, name)
        for path in DOCUMENTS
        for names in re.findall(
            r"[Aa]ssumptions?:? ((?:`[a-z-]+`(?:, | and )?)+)", path.read_text()
        )
        for name in re.findall(r"[a-z-]{2,}", names.replace(" and ", ""))
    ]

    assert len(named) > 50
    assert [row for row in named if row[1] not in known] == []


def test_decisions_that_are_cited_exist() -> None:
    known = {path.name[:4] for path in (ROOT / "docs/decisions").glob("0*.md")}
    cited = {
        number for path in CITED for number in re.findall(r"\bdecision (\d{4})", path.read_text())
    }

    assert cited
    assert cited <= known


def test_the_api_page_has_every_public_name_once() -> None:
    import trailgate  # noqa: PLC0415
    import trailgate.spark  # noqa: PLC0415  needs no PySpark

    page = (ROOT / "docs/api.md").read_text()
    listed = re.findall(r"^::: trailgate\.(?:spark\.)?(\w+)$", page, re.MULTILINE)
    public = [*trailgate.__all__, *trailgate.spark.__all__]

    assert sorted(listed) == sorted(name for name in public if name != "__version__")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_use_only_public_names(path: Path) -> None:
    import trailgate  # noqa: PLC0415
    import trailgate.spark  # noqa: PLC0415

    if path.parent.name == "decisions":
        return
    fenced = re.findall(r"^```\w*\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)
    example = "\n".join(fenced)
    rooms = re.findall(r"^\s*(?:from|import) trailgate\.(?!spark import)\S+", example, re.MULTILINE)
    names = re.findall(r"\btrailgate\.([A-Za-z]\w*)(?!\w*\.\w+ *=)", example)
    on_spark = re.findall(r"\btrailgate\.spark\.(\w+)", example)

    assert rooms == []
    assert set(names) - {"spark"} <= set(trailgate.__all__)
    assert set(on_spark) <= set(trailgate.spark.__all__)


def test_the_packages_are_drawn_as_the_contracts_have_them() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = contracts["contracts"][0]["layers"]
    page = (ROOT / "CONTRIBUTING.md").read_text().split("## The packages")[1].split("\n## ")[0]
    drawn = re.findall(
        r"^(\w+(?: \| \w+)*) +\S", page.split("```")[1].partition("\n")[2], re.MULTILINE
    )

    assert drawn == [layer for layer in layers if layer != "__main__"]
