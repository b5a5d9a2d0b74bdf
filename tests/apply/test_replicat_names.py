"""Every name of the public reference has a row: it is obeyed, noted or refused with its reason, and only a misspelt one is unknown."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path

import pytest

from trailgate.apply.replicat.replicat_files import MAP_OBEYED, OBEYED, parse_replicat
from trailgate.apply.replicat.unsupported_of_replicat import MAP_NOTED, MAP_REFUSED, NOTED, REFUSED
from trailgate.errors import OptionError
from trailgate.expressions import extract_files, unsupported_of_extract
from trailgate.expressions.extract_files import parse_extract
from trailgate.expressions.functions import FUNCTIONS, REFUSED_FUNCTIONS
from trailgate.expressions.parser import parse_value
from trailgate.expressions.unsupported_parameters import FOREIGN, OF_REPLICAT

NAMES = {
    kind: text.split()
    for kind, text in tomllib.loads(
        Path(__file__).with_name("replicat_names.toml").read_text()
    ).items()
}
MAP = "MAP a.b, TARGET c.d"
LEAST = "EXTRACT g\nVAM lib.so, PARAMS p\n"
PAGE = (Path(__file__).parents[2] / "docs/howto/from-replicat.md").read_text()


def refusal_of(text: str) -> str:
    """Return the problem with which a Replicat file is refused; empty if it is taken."""
    try:
        parse_replicat(text)
    except OptionError as error:
        return error.problem
    return ""


@pytest.mark.parametrize("name", NAMES["parameters"])
def test_a_parameter_has_a_row(name: str) -> None:
    kinds = [name in one for one in (OBEYED, NOTED, REFUSED)]
    assert sum(kinds) == 1
    problem = refusal_of(f"{name} x\n{MAP};")
    assert "unknown parameter" not in problem
    if name in REFUSED and name != "TABLE":  # which would end at a semicolon
        assert problem == f"{name} x is not supported: {REFUSED[name]}"
    if name in NOTED:
        assert problem == ""


@pytest.mark.parametrize("name", sorted({*NAMES["map_options"]} - {"TARGET"}))
def test_an_option_of_map_has_a_row(name: str) -> None:
    assert sum(name in one for one in (MAP_OBEYED, MAP_NOTED, MAP_REFUSED)) == 1
    problem = refusal_of(f"{MAP}, {name} (x);")
    assert "unknown" not in problem
    if name in MAP_REFUSED:
        assert problem == f"{name} (x) is not supported: {MAP_REFUSED[name]}"


@pytest.mark.parametrize("name", [*NAMES["globals"], *NAMES["manager"]])
def test_a_parameter_of_another_file_is_named_so(name: str) -> None:
    assert f"{name} is not supported: it belongs to" in refusal_of(f"{name}\n{MAP};")
    with pytest.raises(OptionError, match=f"{name} is not supported: it belongs to"):
        parse_extract(LEAST + name)


@pytest.mark.parametrize("name", NAMES["extract"])
def test_a_parameter_of_extract_has_a_row_and_a_place_in_replicat(name: str) -> None:
    kinds = (extract_files.OBEYED, unsupported_of_extract.NOTED, unsupported_of_extract.REFUSED)
    assert sum(name in one for one in kinds) == 1
    assert "unknown parameter" not in refusal_of(f"{name} x;\n{MAP};")


@pytest.mark.parametrize("name", NAMES["log_options"])
def test_an_option_of_the_log_has_a_row(name: str) -> None:
    row = unsupported_of_extract.TRANSACTION_LOG[name]
    assert bool(row.member) + bool(row.noted) + bool(row.refused) == 1
    found = parse_extract(
        f"{LEAST}TRANLOGOPTIONS {name} x, INTEGRATEDPARAMS (parallelism 2, max 4)",
        ignore_unsupported=True,
    )
    noted = [one.text for one in found.unused]
    assert noted[-1] == "TRANLOGOPTIONS INTEGRATEDPARAMS (parallelism 2, max 4)"
    assert (f"TRANLOGOPTIONS {name} x" in noted) == bool(row.noted)


@pytest.mark.parametrize("name", NAMES["functions"])
def test_a_function_is_computed_or_refused(name: str) -> None:
    images = ("BEFORE", "AFTER", "BEFOREAFTER")
    assert (name in FUNCTIONS) + (name in REFUSED_FUNCTIONS) + (name in images) == 1
    if name in REFUSED_FUNCTIONS:
        with pytest.raises(OptionError, match=re.escape(f"@{name} is not supported: ")):
            parse_value(f"@{name} (x)")


@pytest.mark.parametrize(
    ("written", "near"),
    [
        ("HANDELCOLLISIONS", "HANDLECOLLISIONS"),
        ("BATCHSQ", "BATCHSQL"),
        ("GETUPDATBEFORES", "GETUPDATEBEFORES"),
        ("ASSUMETARGETDEF", "ASSUMETARGETDEFS"),
        ("ALOWNOOPUPDATES", "ALLOWNOOPUPDATES"),
    ],
)
def test_a_misspelt_parameter_is_unknown_with_the_nearest(written: str, near: str) -> None:
    assert f"unknown parameter; did you mean {near}?" in refusal_of(f"{written}\n{MAP};")


def test_a_misspelt_option_is_unknown_with_the_nearest() -> None:
    assert "did you mean KEYCOLS?" in refusal_of(f"{MAP}, KEYCOL (x);")


def test_tables_have_each_name_once_and_reasons_are_texts() -> None:
    tables = (OBEYED, NOTED, REFUSED), (MAP_OBEYED, MAP_NOTED, MAP_REFUSED)
    for own in tables:
        assert not any(set(one) & set(other) for one, other in itertools.combinations(own, 2))
    for reasons in (NOTED, REFUSED, MAP_NOTED, MAP_REFUSED, FOREIGN):
        assert all(reasons.values())


def test_what_belongs_to_replicat_is_known_to_extract() -> None:
    own = {*OBEYED, *NOTED, *REFUSED, *MAP_OBEYED, *MAP_NOTED, *MAP_REFUSED}
    theirs = {*extract_files.OBEYED, *unsupported_of_extract.NOTED, *unsupported_of_extract.REFUSED}
    theirs |= {
        *extract_files.CLAUSES,
        *unsupported_of_extract.REASONS,
        *unsupported_of_extract.TABLE_NOTED,
    }
    assert own - theirs - {*FOREIGN} == {*OF_REPLICAT}


def test_the_page_has_a_row_for_each() -> None:
    rows = re.findall(r"^\| ([A-Z][^|]*) \| (obeyed|noted|refused) \|", PAGE, re.MULTILINE)

    def words(kind: str, option: bool) -> set[str]:
        return {
            word
            for names, of in rows
            if of == kind and names.startswith("MAP: ") == option
            for word in re.findall(r"[A-Z0-9_]{2,}", names.removeprefix("MAP: "))
        }

    assert words("obeyed", False) == set(OBEYED)
    assert words("noted", False) == set(NOTED)
    assert words("refused", False) == set(REFUSED)
    assert words("obeyed", True) == set(MAP_OBEYED)
    assert words("noted", True) == set(MAP_NOTED)
    assert words("refused", True) == set(MAP_REFUSED)
    for name in (*FUNCTIONS, *REFUSED_FUNCTIONS):
        assert f"@{name}" in PAGE + (Path(__file__).parents[2] / "docs/extract.md").read_text()
