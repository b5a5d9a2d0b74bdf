"""COPY REPLACING and REPLACE: text words as the COBOL standard and compilers define them."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from cobol.copybook.compiled_layouts import needs_cobc, preprocessed
from trailgate.cobol.copybook.conditional_text import CompileConstants
from trailgate.cobol.copybook.layouts import COMPILERS, CobolDialect, TextWordUnits
from trailgate.cobol.copybook.reader import read_copybook
from trailgate.cobol.copybook.replacing import CopybookText
from trailgate.cobol.copybook.source import read_lines
from trailgate.errors import DefinitionError

MEMBER = """
       01  REC.
           05  :TAG:-A PIC 9(2).
           05  (TAG)-B PIC S9(2).
           05  #TAG#-C PIC +9(2).
           05  TAG-D   PIC 9(2).99.
           05  OLD-E   PIC $9(2).
           05  X       PIC X(3).
           05  Y       PIC XX(3) VALUE "OLD-E,9(2).".
      * a comment between words
           05  Z       PIC
      * of an entry
               9V9(2) COMP-3.
           05  OLD-OLD PIC 99,9.
           05  TAG     PIC Z9/99.
           05  X.
               10 W-X  PIC X.
"""
# Operands, and the words in the result that are not in the member's.
RULES = {
    "==:TAG:== BY ==IN==": ["IN-A"],
    "==(TAG)== BY ==IN==": ["IN-B"],
    "==#TAG#== BY ==IN==": ["IN-C"],
    "==TAG-== BY ==IN-==": [],
    "==TAG== BY ==N==": [":N:-A", "(N)-B", "#N#-C", "N"],
    "LEADING ==TAG-== BY ==IN-==": ["IN-D"],
    "LEADING ==OLD-== BY ==NEW-==": ["NEW-E", "NEW-OLD"],
    "LEADING ==OLD-== BY ====": ["E", "OLD"],
    "TRAILING ==-E== BY ==-F==": ["OLD-F"],
    "TRAILING ==-OLD== BY ====": ["OLD"],
    "==PIC 9(2).== BY ==PIC 9(6).==": ["9(6)"],
    "==PIC S9(2).== BY ==PIC S9(4).==": ["S9(4)"],
    "==PIC S9(2).== BY ==PIC S9(4)== ==.== BY ==.==": ["S9(4)"],
    "==05 X.== BY ==05 Q.==": ["Q"],
    "==X== BY ==Q==": ["Q", "Q(3)", "Q", "Q"],
    "X BY Q": ["Q", "Q(3)", "Q", "Q"],
    "==(2)== BY ==(6)==": ["9(6)", "S9(6)", "+9(6)", "9(6).99", "$9(6)", "9V9(6)"],
    "==S9== BY ==Q==": ["Q(2)"],
    "==PIC 9V9(2)== BY ==PIC 9V9(4)==": ["9V9(4)"],
    "==XX(3)== BY ==X(9)==": ["X(9)"],
    "==:TAG:-== BY ====": [],
    "==:TAG:== BY ====": ["-A"],
    "==OLD-E== BY ==E== ==E== BY ==F==": ["E"],
    "==:TAG:== BY ==OLD-E== ==OLD-E== BY ==Q==": ["OLD-E-A", "Q"],
    '=="OLD-E,9(2)."== BY =="NEW"==': ['"NEW"'],
}
# Where compilers differ: text words of the standard, and of GnuCOBOL.
DIFFERENT = {
    "==9(2)== BY ==9(6)==": (["9(6)", "9(6).99"], ["9(6)", "9(6).99", "$9(6)"]),
    "==9(2).== BY ==9(6).==": (["9(6)"], ["9(6)", "$9(6)"]),
    "==99== BY ==77==": ([], ["Z9/77"]),
    "==$9(2)== BY ==Q==": (["Q"], ["Q"]),
}


def words_of(text: str, members: dict[str, str], words: TextWordUnits) -> list[str]:
    def member(name: str) -> tuple[list[object], str]:
        return read_lines(members[name]), name  # type: ignore[return-value]

    copybook = CopybookText(member, CobolDialect(text_words=words), CompileConstants({}))  # type: ignore[arg-type]
    return [
        token.text
        for token in copybook.tokens(read_lines(text), "text")
        if token.kind.value != "comment"
    ]


def replaced(rules: str, words: TextWordUnits) -> tuple[list[str], list[str]]:
    """Return the words of the member, and with rules; a long statement is on several lines."""
    statement = "\n               ".join(["COPY MEMBER REPLACING", *rules.split(" "), "."])
    members = {"MEMBER": MEMBER}
    plain = words_of("           COPY MEMBER.", members, words)
    return plain, words_of(f"           {statement}", members, words)


def changed(rules: str, words: TextWordUnits) -> list[str]:
    plain, found = replaced(rules, words)
    return [word for word in found if word not in plain or found.count(word) > plain.count(word)]


@pytest.mark.parametrize("words", TextWordUnits)
@pytest.mark.parametrize(("rules", "expected"), RULES.items())
def test_text_words_are_replaced(rules: str, expected: list[str], words: TextWordUnits) -> None:
    assert [*dict.fromkeys(changed(rules, words))] == [*dict.fromkeys(expected)]


@pytest.mark.parametrize(("rules", "expected"), DIFFERENT.items())
def test_characters_of_pictures_are_text_words_of_gnucobol(
    rules: str, expected: tuple[list[str], list[str]]
) -> None:
    assert changed(rules, TextWordUnits.SEPARATED) == expected[0]
    assert changed(rules, TextWordUnits.CHARACTERS) == expected[1]
    assert COMPILERS["gnucobol"]["text_words"] is TextWordUnits.CHARACTERS


@needs_cobc
@pytest.mark.parametrize("rules", [*RULES, *DIFFERENT])
def test_gnucobol_replaces_the_same(rules: str, tmp_path: Path) -> None:
    (tmp_path / "MEMBER.cpy").write_text(MEMBER)
    statement = "\n               ".join(["COPY MEMBER REPLACING", *rules.split(" "), "."])

    compiled = preprocessed(tmp_path, f"           {statement}\n")

    _, found = replaced(rules, TextWordUnits.CHARACTERS)
    assert re.sub(r"\s", "", "".join(compiled)) == re.sub(r"\s", "", "".join(found))


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (
            "REPLACE ==PIC 9(2).== BY ==PIC 9(6).==.\n 01 R.\n 05 A PIC 9(2).\n 05 B PIC 9(2).",
            [6, 6],
        ),
        ("REPLACE ==9(2).== BY ==9(6).==.\n 01 R.\n 05 A PIC 9(2).\n 05 B PIC 9(2).99.", [6, 5]),
        ("REPLACE ==05 X.== BY ==05 Y.==.\n 01 R.\n 05 X.\n 10 A PIC 9.", [1]),
        ("REPLACE ==X.==BY==Y.==.\n 01 R.\n 05 X.\n 10 A PIC 9.", [1]),
        ("REPLACE ==. 05 B== BY ==OCCURS 2. 05 B==.\n 01 R.\n 05 A PIC 9. 05 B PIC 9.", [2, 1]),
        ("01 R.\n 05 A PIC 9(2).*> a comment\n 05 B PIC 9.", [2, 1]),
        ("01 R.\n 05 A PIC 9(2). 05 B PIC 9 .", [2, 1]),
        ("01 R.\n 05 A PIC 9(2).\t\n 05 B PIC 9.\x0c", [2, 1]),
    ],
)
def test_a_period_is_a_word_at_every_end(text: str, sizes: list[int]) -> None:
    (layout,) = read_copybook(
        f" {text}\n", dialect=CobolDialect(text_words=TextWordUnits.SEPARATED)
    )
    assert [
        f.extent if "OCCURS" not in text else f.size * f.repeats
        for f in layout.root.walk()
        if not f.children
    ] == sizes


def test_a_period_in_column_72_ends_an_entry() -> None:
    line = "           05  A PIC 9(2)".ljust(71) + ".00010000"
    (layout,) = read_copybook(f"       01 R.\n{line}\n           05 B PIC 9.\n")
    assert [field.size for field in layout.root.children] == [2, 1]


def test_text_copied_by_a_member_is_replaced_too() -> None:
    members = {
        "OUTER": "       01 R.\n       05 :T:-A PIC X.\n       COPY INNER REPLACING ==:U:== BY ==:T:-U==.\n",
        "INNER": "       05 :T:-B PIC X.\n       05 :U:-C PIC X.\n",
    }
    text = "       COPY OUTER REPLACING ==:T:== BY ==IN==.\n"

    (layout,) = read_copybook(text, member=members.get)

    assert [field.name for field in layout.root.children] == ["IN-A", "IN-B", "IN-U-C"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("       COPY M REPLACING ==:TAG:== BY ==A==\n                ==:GAT:== BY ==B==.\n", 2),
        ("       REPLACE ==PIC 9(3).== BY ==PIC 9(4).==.\n       COPY M.\n", 1),
        ("       COPY M REPLACING LEADING ==OLD== BY ==B==.\n", 1),
        (
            "       REPLACE ==:TAG:== BY ==A==.\n       COPY M.\n       REPLACE ALSO ==Q== BY ==R==.\n",
            3,
        ),
    ],
)
def test_a_rule_that_matches_nothing_is_reported_with_its_line(
    text: str, line: int, caplog: pytest.LogCaptureFixture
) -> None:
    members = {"M": "       01 R.\n       05 :TAG:-A PIC X.\n"}
    with caplog.at_level(logging.WARNING):
        read_copybook(text, member=members.get)
    (found,) = caplog.messages
    assert "replaces nothing" in found
    assert f"line {line}" in found


def test_rules_that_match_are_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    members = {
        "M": "       01 R.\n       05 :TAG:-A PIC X.\n       COPY N.\n",
        "N": "       05 :B: PIC X.\n",
    }
    with caplog.at_level(logging.WARNING):
        read_copybook(
            "       COPY M REPLACING ==:TAG:== BY ==A== ==:B:== BY ==C==.\n", member=members.get
        )
    assert not caplog.messages


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("==A== ==B==", "REPLACING needs BY"),
        ("==A== BY", "REPLACING ends before its new text"),
        ("==== BY ==B==", "a text to replace, but it is empty"),
        ("==A BY B", "COPY without the period"),
    ],
)
def test_a_wrong_rule_is_an_error_with_its_line(rules: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        read_copybook(f"       01 R.\n       COPY M REPLACING {rules}.\n", member=lambda _: "")
