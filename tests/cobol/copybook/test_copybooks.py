"""Copybooks to layouts: golden listings, errors with their place, and anything at all as input."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from laws import examples
from trailgate.cobol.copybook.layouts import (
    BinarySizes,
    CobolDialect,
    CopybookField,
    CopybookLayout,
    SourceFormat,
)
from trailgate.cobol.copybook.reader import read_copybook
from trailgate.errors import DefinitionError

CASES: Final = sorted((Path(__file__).parent / "cases").glob("*.toml"))


def listing(layouts: list[CopybookLayout]) -> str:
    return "\n".join(_line(field) for layout in layouts for field in layout.root.walk())


def _line(field: CopybookField) -> str:
    words = [f"{field.level:02d}", field.name, field.usage.value.replace(" ", "-")]
    words.append(f"{field.offset}+{field.size}")
    if field.number is not None:
        sign = field.number.sign.value.replace(" ", "-")
        words.append(f"{field.number.digits}:{field.number.scale}:{sign}")
    words += [part for part in _notes(field) if part]
    return " ".join(words)


def _notes(field: CopybookField) -> Iterator[str]:
    if field.occurs is not None:
        counter = f"({field.occurs.counter})" if field.occurs.counter else ""
        yield f"{field.occurs.least}..{field.occurs.most}{counter}/{field.stride}"
    yield f"={field.redefines}" if field.redefines else ""
    yield "key" if field.key else ""
    yield f"date:{field.date_format}" if field.date_format else ""
    for condition in field.conditions:
        values = ",".join(f"{a}-{b}" if b else a for a, b in condition.values)
        yield f"{condition.name}:{values}"


@pytest.mark.parametrize("path", CASES, ids=lambda path: str(path.stem))
def test_a_copybook_has_its_layout(path: Path) -> None:
    case: dict[str, Any] = tomllib.loads(path.read_text())
    members: dict[str, str] = case.get("members", {})

    found = read_copybook(case["copybook"], member=lambda name: members.get(name.upper()))

    assert case["why"]
    assert listing(found).splitlines() == case["layout"].strip().splitlines()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "01 A.\n   05 B PIC Q.",
            r"'Q' in the picture Q is not a picture symbol .*line 2, column 13",
        ),
        ("01 A.\n   05 B PIC X(0).", "repeats X zero times"),
        ("01 A.\n   05 B PIC 9(4)V99P.", "9\\(4\\)V99P has a P between its digits .*VPP9 or 9PP"),
        ("01 A.\n   05 B PIC 9P9.", "9P9 has a P between its digits"),
        ("01 A.\n   05 B PIC 99VPP.", "99VPP has a P between its digits"),
        ("01 A.\n   05 B PIC PP99PP.", "PP99PP has a P between its digits"),
        ("01 A.\n   05 B PIC 9V9V9.", "9V9V9 has two decimal points"),
        ("01 A.\n   05 B PIC 9.9V9.", "9.9V9 has two decimal points"),
        ("01 A.\n   05 B PIC 9S9.", "9S9 has an S that is not its first symbol"),
        ("01 A.\n   05 B PIC S99S.", "S99S has an S that is not its first symbol"),
        ("01 A.\n   05 B PIC CR99.", "CR99 has a CR or DB that is not its last symbol"),
        ("01 A.\n   05 B PIC X(4)V99.", "X\\(4\\)V99 has both X and V"),
        ("01 A.\n   05 B PIC Z.ZZZ.ZZ9,99.", "two decimal points .*column 13.*decimalComma"),
        ("01 A.\n   05 B PIC Z.ZZ9,99.9.", "two decimal points .*column 13.*decimalComma"),
        ("01 A.\n   05 B.", "B has neither a picture nor items .*line 2, column 4"),
        ("01 A.\n   05 B PIC 9(4) COMP-7.", "a clause of B was expected, not COMP-7 .*column 18"),
        ("01 A.\n   05 B REDEFINES C PIC X.", "B redefines C, which does not exist"),
        ("01 A.\n  05 C PIC X OCCURS 2.\n  05 B REDEFINES C PIC X.", "C, which occurs"),
        ("01 A.\n  05 B PIC X OCCURS 0.", "B occurs 0 to 0 times"),
        ("01 A.\n  05 B PIC 9(19) COMP.", "a binary number of 19 digits"),
        ("01 A.\n  05 B PIC 9(39).", "B has 39 digits"),
        ("01 A.\n  05 B PIC X COMP-3.", "its picture is not a number"),
        ("01 A.\n  05 B PIC X(9) COMP-X.", "a binary number of 9 bytes .*COMP-X has at most 8"),
        ("01 A.\n  05 B PIC S9(4) BINARY-LONG.", "B is BINARY-LONG, and has a picture .*line 2"),
        ("01 A.\n  05 B PIC X USAGE UTF-8.", "B is UTF-8, but its picture has no U"),
        ("01 A.\n  05 B PIC S9(3) NATIONAL.", "B has a sign on a national digit"),
        (
            (
                "01 A.\n  05 G.\n 10 N PIC 9.\n  05 H.\n 10 N PIC 9.\n"
                "  05 B PIC X OCCURS 0 TO 2 DEPENDING ON N."
            ),
            r"B depends on N, which does not identify one item \(.*line 6.*OF GROUP",
        ),
        (
            (
                "01 A.\n  05 G.\n 10 N PIC 9.\n  05 H.\n 10 N PIC 9.\n"
                "  05 B PIC X OCCURS 0 TO 2 DEPENDING ON N OF K."
            ),
            "B depends on N, which does not identify one item",
        ),
        ("01 A.\n++INCLUDE NOWHERE\n  05 B PIC X.", "the member NOWHERE was not found .*line 2"),
        ("01 A.\n++INCLUDE\n  05 B PIC X.", "COPY needs the name of a member .*line 2"),
        ("78 N.\n01 A.\n  05 B PIC X.", "the constant N has no VALUE"),
        ("EXEC SQL DECLARE T TABLE (A INTEGER).\n01 A PIC X.", "EXEC SQL without END-EXEC"),
        ("EXEC SQL INCLUDE ROWS END-EXEC.\n01 A PIC X.", "the member ROWS was not found"),
        ("01 A.\n  05 B PIC X OCCURS UNBOUNDED.", "occurs UNBOUNDED without DEPENDING ON"),
        (
            "01 A.\n  05 B PIC X OCCURS UNBOUNDED DEPENDING ON N.",
            "depends on N, which does not exist",
        ),
        ("01 A PIC X.\n  05 B PIC X.", "A has a picture, so B cannot be in it"),
        ("01 A PIC X VALUE 'a.", "has no closing quote .*line 1, column 18"),
        ("hello world.", "a level number was expected, not hello .*line 1, column 1"),
        ("50 A PIC X.", "50 is not a level number"),
        ("01 A PIC X.\n\u00b2 B PIC X.", "a clause of A was expected|a level number was expected"),
        (
            "01 A.\nCOPY M\n  05 B PIC X.",
            "05 follows COPY M, where its period is expected .*line 2",
        ),
        ("01 A.\nCOPY M OF L SUPPRESS X.", "X follows COPY M"),
        ("COPY NOWHERE OF L SUPPRESS PRINTING.", "the member NOWHERE was not found"),
        ("COPY NOWHERE.", "the member NOWHERE was not found"),
        ("01 A PIC X(200000000).", "too long"),
        ("01 A.\n  05 B PIC X(9999) OCCURS 99999.", "takes more than"),
        ("", "the copybook has no item"),
    ],
)
def test_an_error_is_named_with_its_position(text: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        read_copybook(text, dialect=CobolDialect(SourceFormat.FREE))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "         05 A                                       PIC S9(5) SIGN LEADING SEPARATE.",
            r"not LEADI .*line 2, column 68\). Text after column 72 is not read: 'NG SEPARATE\.'",
        ),
        ("\t\t05 A\t\tPIC S9(15)\t\tSIGN LEADING SEPARATE.", r"not SEP .*'ARATE\.' \(a tab can"),
        (
            "         05 A                                       PIC S9(15)          COMP-3.",
            r"the entry of A has no period .*not read: 'COMP-3\.'",
        ),
        (
            "         05 A PIC X(40)         VALUE 'a literal that is longer than the line is'.",
            r"has no closing quote .*line 2, column 39\). Text after column 72",
        ),
    ],
)
def test_text_that_column_72_cuts_is_named(text: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        read_copybook(f"       01 R.\n{text}\n         05 B PIC X.\n")


def test_a_sequence_number_after_column_72_is_not_taken_for_cut_text() -> None:
    line = "         05 A PIC Q.".ljust(72) + "00010020"
    with pytest.raises(DefinitionError, match=r"not a picture symbol \(.*column 19\)$"):
        read_copybook(f"       01 R.\n{line}\n")


def test_a_form_of_replace_that_is_not_known_is_refused() -> None:
    with pytest.raises(DefinitionError, match="this form of REPLACE is not supported"):
        read_copybook("REPLACE FIRST ==A== BY ==B==.\n01 R PIC X.")


def test_a_separate_sign_without_s_takes_no_byte_and_gives_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    (warned,) = read_copybook("01 R.\n  05 A PIC 9(3) SIGN LEADING SEPARATE.\n  05 B PIC X.")

    assert [field.size for field in warned.root.children] == [3, 1]
    (warning,) = caplog.messages
    assert re.search(r"its picture 9\(3\) has no S .*line 2.*without a sign", warning)
    (layout,) = read_copybook("01 R SIGN TRAILING SEPARATE.\n 05 A PIC 9(3).\n 05 B PIC S9.")
    assert [field.size for field in layout.root.children] == [3, 2]


def test_a_member_that_copies_itself_is_an_error() -> None:
    with pytest.raises(DefinitionError, match="does A copy itself"):
        read_copybook("COPY A.", member=lambda _: "COPY A.")


def test_the_size_of_binary_numbers_is_a_dialects() -> None:
    text = "01 R. 05 A PIC S9(2) COMP. 05 B PIC 9(5) COMP. 05 C PIC S9(7) COMP."

    def sizes(dialect: CobolDialect) -> list[int]:
        return [field.size for field in read_copybook(text, dialect=dialect)[0].root.children]

    assert sizes(CobolDialect()) == [2, 4, 4]
    assert sizes(CobolDialect(binary_sizes=BinarySizes.SMALLEST)) == [1, 3, 4]


WORDS: Final = st.sampled_from(
    [
        "01",
        "05",
        "10",
        "88",
        "66",
        "77",
        "A",
        "B-C",
        "FILLER",
        "PIC",
        "X(3)",
        "S9(4)V99",
        "COMP",
        "COMP-3",
        "REDEFINES",
        "OCCURS",
        "3",
        "TO",
        "5",
        "TIMES",
        "DEPENDING",
        "ON",
        "VALUE",
        "'x'",
        '"y',
        "THRU",
        "SIGN",
        "LEADING",
        "SEPARATE",
        "SYNC",
        "COPY",
        "REPLACING",
        "==:T:==",
        "BY",
        ".",
        ".,",
        "BLANK",
        "ZERO",
        "INDEXED",
        "USAGE",
        "IS",
        "-9.99",
        "Z(9).",
        "*KEY",
        "*> x",
        "REPLACE",
        "OFF",
        "OF",
        ".5",
        "COMP-X",
        "U(2)",
        "BYTE-LENGTH",
        "FALSE",
        "66",
        "RENAMES",
        "++INCLUDE",
        "-INC",
        "ALSO",
        "LAST",
        "78",
        "NATIONAL",
        "+9.9E+99",
        "ZZ9-",
        "S9(20)",
        "COMP-5",
        "UNBOUNDED",
        "LENGTH OF A",
        "START OF A",
        "NEXT",
        "(2 *",
        "+",
        "CONSTANT",
        "TYPEDEF",
        "TYPE A",
        "USAGE A",
    ]
)


@settings(max_examples=examples(300), deadline=None)
@example([("01 A PIC X", ". ")])
@given(st.lists(st.tuples(WORDS, st.sampled_from([" ", "\n", "\n      ", ". ", "\n      -"]))))
def test_any_words_give_layouts_or_our_error(words: list[tuple[str, str]]) -> None:
    text = "".join(word + gap for word, gap in words)
    assert _is_copybook(text) or words != [("01 A PIC X", ". ")]


@settings(max_examples=examples(200), deadline=None)
@example("01 A PIC X.")
@given(st.text(max_size=200))
def test_any_text_gives_layouts_or_our_error(text: str) -> None:
    assert _is_copybook(text) or text != "01 A PIC X."


def _is_copybook(text: str) -> bool:
    """Return whether a text is a copybook, whose items must be within their records."""
    try:
        layouts = read_copybook(text)
    except DefinitionError:
        return False
    for layout in layouts:
        for field in layout.root.walk():
            assert 0 <= field.offset <= layout.size
            assert field.offset + field.extent <= layout.size or field.occurs or field.level == 1
    return True
