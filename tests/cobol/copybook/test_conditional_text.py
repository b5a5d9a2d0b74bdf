"""Conditional text of copybooks, in the standard's notation and in that of Micro Focus."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from cobol.copybook.compiled_layouts import needs_cobc, preprocessed, printed
from trailgate import OptionError, read_records
from trailgate.cli.main import run
from trailgate.cobol.copybook.conditional_text import read_constants
from trailgate.cobol.copybook.layouts import CobolDialect
from trailgate.cobol.copybook.reader import read_copybook
from trailgate.errors import DefinitionError


def sizes(text: str, constants: str = "", **members: str) -> list[int]:
    """Return the sizes of the items of a copybook of fixed format, which begins with a record."""
    dialect = CobolDialect(constants=read_constants(constants))
    copybook = "       01  R.\n" + text
    layouts = read_copybook(copybook, dialect=dialect, member=members.get)
    return [field.size for layout in layouts for field in layout.root.walk() if not field.children]


def chosen(condition: str, constants: str = "") -> bool:
    text = f"       >>IF {condition}\n       05 A PIC X(3).\n       >>ELSE\n       05 A PIC X(4).\n       >>END-IF\n"
    return sizes(text, constants) == [3]


# Of each condition: whether it holds for BIG=3, for BIG without a value, and where BIG is not defined.
CONDITIONS = {
    "BIG IS DEFINED": (True, True, False),
    "BIG DEFINED": (True, True, False),
    "BIG IS NOT DEFINED": (False, False, True),
    "BIG = 3": (True, False, False),
    "BIG IS EQUAL TO 3": (True, False, False),
    "BIG >= 3": (True, False, False),
    "BIG GREATER THAN OR EQUAL TO 4": (False, False, False),
    "BIG <> 3": (False, False, False),
    "BIG NOT = 3": (False, True, True),
    "BIG IS NOT LESS 3": (True, True, True),
    "BIG LESS THAN 4": (True, False, False),
}
# What GnuCOBOL 3.1 does not have, by the standard.
MORE_CONDITIONS = {
    "BIG DEFINED AND BIG = 3": (True, False, False),
    "NOT BIG DEFINED OR BIG > 2": (True, False, True),
    "(BIG = 3)": (True, False, False),
    "NOT (BIG = 3 OR BIG = 4)": (False, True, True),
    "BIG": None,
    "(2 + 1) * 2 = 6 AND BIG SET": (True, True, False),
    "B'1'": (True, True, True),
    "B'0' OR 'A' < 'B'": (True, True, True),
}
GIVEN = ("BIG=3", "BIG", "BIG=OFF")


@pytest.mark.parametrize(
    "condition", [*CONDITIONS, *[c for c, held in MORE_CONDITIONS.items() if held]]
)
def test_a_condition_chooses_a_branch(condition: str) -> None:
    expected = {**CONDITIONS, **MORE_CONDITIONS}[condition]
    assert tuple(chosen(condition, given) for given in GIVEN) == expected


@needs_cobc
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_gnucobol_chooses_the_same_branch(condition: str, given: str, tmp_path: Path) -> None:
    text = f"       >>IF {condition}\n       05 A PIC X(3).\n       >>ELSE\n       05 A PIC X(4).\n       >>END-IF\n"
    options = [] if given == "BIG=OFF" else [f"-D{given}"]

    words = preprocessed(tmp_path, text, *options)

    assert ("X(3)." in words) is chosen(condition, given)


TEXTS = {
    "the dollar in column 7": (
        "      $IF BIG DEFINED\n       05 A PIC X(1).\n      $ELSE\n       05 A PIC X(2).\n      $END\n",
        {"BIG": [1], "BIG=OFF": [2]},
    ),
    "the dollar after column 7, and a value": (
        "       $IF BIG = 3\n       05 A PIC X(1).\n       $ELSE\n       05 A PIC X(2).\n       $END\n",
        {"BIG=3": [1], "BIG=4": [2]},
    ),
    "blanks after the mark": (
        "       >> IF BIG DEFINED\n       05 A PIC X(1).\n       >> ELSE\n       05 A PIC X(2).\n       >> END-IF\n",
        {"BIG": [1], "BIG=OFF": [2]},
    ),
    "in each other": (
        (
            "       >>IF BIG DEFINED\n      $IF BIG = 2\n       05 A PIC X(1).\n      $END\n       05 B PIC X(2).\n"
            "       >>ELSE\n      $IF BIG = 2\n       05 C PIC X(3).\n      $END\n       05 D PIC X(4).\n       >>END-IF\n"
        ),
        {"BIG=2": [1, 2], "BIG=1": [2], "BIG=OFF": [4]},
    ),
    "the first branch that holds": (
        (
            "       >>IF BIG = 1\n       05 A PIC X(1).\n       >>ELIF BIG = 2\n       05 A PIC X(2).\n"
            "       >>ELSE-IF BIG < 3\n       05 A PIC X(3).\n       >>ELSE\n       05 A PIC X(4).\n       >>END-IF\n"
        ),
        {"BIG=1": [1], "BIG=2": [2], "BIG=0": [3], "BIG=5": [4]},
    ),
    "constants of the text": (
        (
            "       >>DEFINE LEVEL AS 2\n       >>DEFINE NEXT-ONE AS LEVEL + 1\n       >>IF NEXT-ONE = 3\n       05 A PIC X(1).\n"
            "       >>END-IF\n       >>DEFINE LEVEL AS OFF\n       >>IF LEVEL IS DEFINED\n       05 B PIC X.\n       >>END-IF\n"
            "      $SET CONSTANT LEVEL 7\n      $IF LEVEL = 7\n       05 C PIC X(3).\n      $END\n"
            "       >>DEFINE LEVEL 8 OVERRIDE\n       >>IF LEVEL = 8\n       05 D PIC X(4).\n       >>END-IF\n"
        ),
        {"": [1, 3, 4]},
    ),
    "text that is not compiled may be anything": (
        (
            "       >>IF BIG DEFINED\n       05 A PIC don't, \"\n       COPY NOWHERE.\n       >>DEFINE X AS 1\n       >>ELSE\n"
            "       05 A PIC X(2).\n       >>END-IF\n       >>IF BIG DEFINED\n       >>IF UNKNOWN = 3\n       >>END-IF\n       >>END-IF\n"
        ),
        {"BIG=OFF": [2]},
    ),
    "a part of an entry": (
        "       05 A\n      $IF BIG DEFINED\n           PIC X(1)\n      $ELSE\n           PIC X(2)\n      $END\n           VALUE ' '.\n",
        {"BIG": [1], "BIG=OFF": [2]},
    ),
    "a constant of a description": (
        "       >>DEFINE COUNT-OF AS 3\n       01 N CONSTANT FROM COUNT-OF.\n       05 A PIC X(N).\n",
        {"": [3]},
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_conditional_text(name: str) -> None:
    text, expected = TEXTS[name]
    assert {given: sizes(text, given) for given in expected} == expected


@needs_cobc
@pytest.mark.parametrize(
    "name", [n for n in TEXTS if n not in ("constants of the text", "a constant of a description")]
)
def test_gnucobol_compiles_the_same_text(name: str, tmp_path: Path) -> None:
    text, expected = TEXTS[name]
    for given, found in expected.items():
        options = [f"-D{given}"] if given and "OFF" not in given else []
        words = preprocessed(tmp_path, "       01 R.\n" + text, *options)
        assert [int(word.strip("X().")) for word in words if word.startswith("X(")] == found


EVALUATE = """
       >>EVALUATE LEVEL
       >>WHEN 1
       05 A PIC X(1).
       >>WHEN 2 THRU 3
       05 A PIC X(2).
       >>WHEN OTHER
       05 A PIC X(9).
       >>END-EVALUATE
       >>EVALUATE TRUE
       >>WHEN LEVEL = 1
       05 B PIC X(1).
       >>WHEN LEVEL > 2 AND LEVEL < 9
       05 B PIC X(2).
       >>END-EVALUATE
"""


@pytest.mark.parametrize(
    ("level", "expected"), [(1, [1, 1]), (2, [2]), (3, [2, 2]), (4, [9, 2]), (9, [9])]
)
def test_evaluate_chooses_a_branch(level: int, expected: list[int]) -> None:
    assert sizes(EVALUATE, f"LEVEL={level}") == expected


def test_texts_are_compared_as_texts() -> None:
    assert chosen("REGION = 'EU'", "REGION=EU")
    assert chosen("REGION = 'EU '", "REGION='EU'")
    assert not chosen("REGION = '7'", "REGION='8'")
    with pytest.raises(DefinitionError, match="a number and a text cannot be compared"):
        chosen("REGION = 7", "REGION=EU")


def test_a_member_can_define_constants_for_the_text_after_it() -> None:
    text = "       COPY FLAGS.\n       >>IF WIDE DEFINED\n       05 A PIC X(8).\n       >>END-IF\n       05 B PIC X.\n"
    assert sizes(text, FLAGS="       >>DEFINE WIDE AS 1\n") == [8, 1]


def test_the_format_can_change() -> None:
    text = "       05 A PIC X.\n       >>SOURCE FORMAT IS FREE\n05 B PIC XX.  *> free\n>>SOURCE FORMAT IS FIXED\n       05 C PIC XXX.                                                    IGNORED\n"
    assert sizes(text) == [1, 2, 3]
    assert sizes('      $SET SOURCEFORMAT"FREE"\n05 B PIC XX.\n') == [2]


def test_directives_that_do_not_concern_items_are_skipped() -> None:
    text = "       >>LISTING OFF\n       >>CALLINTERFACE DLL\n      $XFD DATE=YYMMDD\n      $SET NOOSVS\n       >>D 05 B PIC X.\n       05 A PIC X.\n"
    assert sizes(text) == [1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "      $IF BIG DEFINED\n       05 A PIC X.\n      $END\n",
            r"the constant BIG is not known .*line 2, column 11.*constants: BIG=VALUE, or BIG=OFF",
        ),
        ("       >>IF BIG = 3\n       >>END-IF\n", r"the constant BIG is not known .*line 2"),
        ("       >>IF 1 = 1\n       05 A PIC X.\n", r">>IF without its end .*line 2"),
        ("      $IF 1 = 1\n       05 A PIC X.\n", r"\$IF without its end .*line 2"),
        ("       >>ELSE\n", ">>ELSE without IF before it .*line 2"),
        ("       >>END-IF\n", ">>END-IF without an IF or EVALUATE before it .*line 2"),
        (
            "       >>IF 1 = 1\n       >>ELSE\n       >>ELSE\n       >>END-IF\n",
            ">>ELSE without IF before it .*line 4",
        ),
        ("       >>EVALUATE 1\n       >>END-IF\n", ">>END-IF without an IF or EVALUATE before it"),
        ("       >>IF 1\n       >>END-IF\n", "not a condition: >>IF 1"),
        (
            "       >>IF 1 = 1 ?\n       >>END-IF\n",
            r"\? is not part of a condition .*line 2, column 19",
        ),
        ("       >>IF 1 =\n       >>END-IF\n", "a value was expected after >>IF 1 ="),
        ("       >>IF 1 / 0 = 1\n       >>END-IF\n", "a division by zero"),
        ("       >>IF (1 = 1\n       >>END-IF\n", "is not closed|not part"),
        ("       >>IF X'41' = 'A'\n       >>END-IF\n", "the literal X'41'"),
        (
            "       >>DEFINE A AS 1\n       >>DEFINE A AS 2\n",
            "A is already 1, but is defined as 2 here .*line 3",
        ),
        ("       >>DEFINE 7 AS 1\n", "a name was expected, not 7"),
        ("       >>FROBNICATE\n", ">>FROBNICATE is not a known directive .*line 2"),
        ("       01 N CONSTANT FROM BIG.\n", "the constant BIG has no value .*line 2"),
    ],
)
def test_a_wrong_directive_is_an_error_with_its_line(text: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        sizes(text + "       05 Z PIC X.\n")


def test_settings_of_sizes_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        sizes("      $SET IBMCOMP\n       05 A PIC X.\n")
    assert "$SET IBMCOMP is not supported" in caplog.text


# A constant of $SET CONSTANT in pictures, OCCURS and other constants; the sizes of A and B.
NAMED = """\
      $SET CONSTANT LEN 8
      $SET CONSTANT DECIMALS LEN / 4
       01 RECORD-1.
          05 A PIC X(LEN).
      $IF LEN = 8
          05 B OCCURS LEN TIMES PIC S9(LEN)V9(DECIMALS).
      $END
"""


def test_a_constant_of_set_counts_symbols_and_elements() -> None:
    root = read_copybook(NAMED)[0].root
    assert [field.extent for field in root.children] == [8, 8 * (8 + 2)]
    level_78 = "       78 LEN VALUE 3.\n       01 R.\n           05 A PIC X(LEN).\n"
    assert read_copybook("      $SET CONSTANT LEN 'EIGHT'\n" + level_78)[0].size == 3


@needs_cobc
def test_gnucobol_counts_by_a_constant_of_set(tmp_path: Path) -> None:
    errors_one_by_one = NAMED.replace("LEN / 4", "2")  # GnuCOBOL takes no arithmetic here
    assert printed(tmp_path, errors_one_by_one, items=("A", "RECORD-1")) == [8, 88]


# GnuCOBOL too knows no constants of >>DEFINE and of options here.
@pytest.mark.parametrize(
    "text", ["", "       >>DEFINE LEN AS 8\n", "      $SET CONSTANT LEN 'EIGHT'\n"]
)
def test_another_name_in_a_picture_is_an_error(text: str) -> None:
    message = r"LEN in the picture X\(LEN\) is not a constant .*Define it before, by level 78"
    with pytest.raises(DefinitionError, match=message):
        sizes(text + "       05 A PIC X(LEN).\n", "LEN=8" if not text else "")


@pytest.mark.parametrize("given", [{"BIG": 3}, {"big": "3"}, "BIG=3", " big = 3 , OTHER"])
def test_constants_are_an_option_of_reading(given: Any, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"abcdef")
    text = "       01 R.\n      $IF BIG = 3\n       05 A PIC X(3).\n      $ELSE\n       05 A PIC X(2).\n      $END\n"

    table = read_records(tmp_path / "data", copybook_text=text, constants=given, code_page="ascii")

    assert table.read_all().to_pydict() == {"A": ["abc", "def"]}


@pytest.mark.parametrize("given", [3, ["BIG"], {"A B": 1}, "A B=1", "BIG=1, big=2"])
def test_other_constants_are_an_error(given: Any, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"abcdef")
    with pytest.raises(OptionError, match="constants must be constants and their values"):
        read_records(tmp_path / "data", copybook_text="01 R PIC X.", constants=given)


def test_a_constant_without_effect_is_refused_or_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = """      $IF SITE = "EU"
       05 A PIC X(3).
      $ELSE
      $IF ZONE = 2
      $END
      $END
       05 B PIC X.
"""
    for given in ("SITE=EU, SITE=US", "SITE=EU, site=EU", "SITE=", "SITE= , ZONE=2"):
        with pytest.raises(OptionError, match="constants must be"):
            read_records("data", copybook_text="01 R PIC X.", constants=given)
    warned = {
        "SITE=EU, ZONE=2": "",
        "SITE=EU, SITTE=2": "no directive names the constant SITTE (copybook). Did you mean SITE?",
        "SITE, ZONE=2": 'equals nothing: $IF SITE = "EU" (copybook, line 2, column 7)',
    }
    for given, expected in warned.items():
        caplog.clear()
        sizes(text, given)
        assert len(caplog.messages) == bool(expected)
        assert expected in "".join(caplog.messages)
    # Of several copybooks, one may name a constant.
    (tmp_path / "a.cpy").write_text("       01 R.\n" + text)
    (tmp_path / "b.cpy").write_text("       01 Q.\n       05 C PIC X.\n")
    caplog.clear()
    assert (
        run(
            [
                "copybook",
                *map(str, (tmp_path / "a.cpy", tmp_path / "b.cpy")),
                "--constant",
                "SITE=EU",
            ]
        )
        == 0
    )
    assert (
        run(["copybook", str(tmp_path / "a.cpy"), "--constant", "SITE=EU", "--copy-path", "/no"])
        != 0
    )
    assert not caplog.messages


def test_the_command_takes_constants(tmp_path: Path) -> None:
    path = tmp_path / "A.cpy"
    path.write_text(
        "       01 R.\n      $IF BIG DEFINED\n       05 A PIC X(3).\n      $END\n       05 B PIC X.\n"
    )
    assert run(["copybook", str(path), "--constant", "BIG=OFF"]) == 0
    assert run(["copybook", str(path)]) != 0
