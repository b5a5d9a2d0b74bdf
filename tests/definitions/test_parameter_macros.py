"""Lines of parameter files: comments, the files of OBEY and INCLUDE, and what macros stand for."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from laws import examples
from trailgate.apply.replicat.replicat_files import parse_replicat
from trailgate.definitions.parameter_files import read_statements
from trailgate.errors import OptionError

MACRO = "MACRO #two\nPARAMS (#one, #oneself)\nBEGIN\n#one AND #oneself -- both\nEND;\n"


def read_from(files: Mapping[str, str], text: str) -> list[tuple[str, int, str]]:
    """Return the statements of a text: the file, the line and the text of each."""

    def read(name: str) -> str:
        if name not in files:
            raise OptionError(f"there is no file {name}")
        return files[name]

    return [(one.source, one.line, one.text) for one in read_statements(text, read)]


def texts(text: str, **files: str) -> list[str]:
    return [text for _, _, text in read_from(files, text)]


COMMENTS = {
    "MAP a.b, TARGET c.d;--one": ["MAP a.b, TARGET c.d;"],
    "MAP a.b--one\n, TARGET c.d; -- two": ["MAP a.b , TARGET c.d;"],
    "MAP a.b, TARGET c.d--x;\n;": ["MAP a.b, TARGET c.d ;"],
    "--one\nREPORT--two\n  -- three": ["REPORT"],
    "COMMENT it's one\nREPORT": ["REPORT"],
    "comment, two\nREPORT": ["REPORT"],
    "MAP a.b, TARGET c.d, -- it's\nCOMMENT one\n  KEYCOLS (x);": [
        "MAP a.b, TARGET c.d, KEYCOLS (x);"
    ],
    "MAP a.b, TARGET c.d, COLMAP (a = b,\n  comment = note);": [
        "MAP a.b, TARGET c.d, COLMAP (a = b, comment = note);"
    ],
    "MAP a.b, TARGET c.d, WHERE (x = 'a--b');": ["MAP a.b, TARGET c.d, WHERE (x = 'a--b');"],
    "REPORT &\n  AT 1:00 & -- later\n ON SUNDAY": ["REPORT AT 1:00 ON SUNDAY"],
    "MAP a.b, TARGET c.d; COMMENT more": ["MAP a.b, TARGET c.d;"],
    "\ufeffREPORT\r\nLIST\r\n": ["REPORT", "LIST"],
}


@pytest.mark.parametrize("text", COMMENTS)
def test_comments_are_skipped(text: str) -> None:
    assert texts(text) == COMMENTS[text]


def test_files_are_read_where_they_are_named() -> None:
    files = {"dirprm/maps.inc": "-- maps\nMAP a.b,\n TARGET c.d;\nINCLUDE 'deep'", "deep": "LIST"}
    found = read_from(files, "REPORT\nINCLUDE dirprm/maps.inc -- these\nobey deep;\nTRACE")

    assert found == [
        ("", 1, "REPORT"),
        ("dirprm/maps.inc", 2, "MAP a.b, TARGET c.d;"),
        ("deep", 1, "LIST"),
        ("deep", 1, "LIST"),
        ("", 4, "TRACE"),
    ]


def test_ddl_may_go_on_with_include() -> None:
    assert texts("DDL &\nINCLUDE MAPPED") == ["DDL INCLUDE MAPPED"]


MACROS = {
    "a call": (MACRO + "FILTER #two (A = 1, B)", ["FILTER A = 1 AND B"]),
    "commas inside": (MACRO + "#two (@F (x, y), 'a,b')", ["@F (x, y) AND 'a,b'"]),
    "case": (MACRO + "#TWO (a, b)", ["a AND b"]),
    "over lines": (MACRO + "MAP x #two (a,\n b), y;", ["MAP x a AND b, y;"]),
    "without values": (
        "MACRO #opts\nBEGIN\nREPORT\nLIST\nEND;\n#opts ()\n#opts",
        ["REPORT", "LIST"] * 2,
    ),
    "in one line": ("MACRO #o BEGIN LIST END;\n#o", ["LIST"]),
    "nested": (MACRO + "MACRO #m PARAMS (#x) BEGIN\n#two (#x, #x)\nEND;\nF #m (q)", ["F q AND q"]),
    "an own sign": ("MACROCHAR $\nMACRO $m PARAMS ($a) BEGIN F $a # END;\n$m (x)", ["F x #"]),
    "quoted": (MACRO + "F '#two (a, b)' \"#two\"", ["F '#two (a, b)' \"#two\""]),
    "statements": (
        "MACRO #t PARAMS (#n) BEGIN\nMAP a.#n, TARGET b.#n,\n KEYCOLS (id);\nEND;\n#t (x)\n#t (y)",
        ["MAP a.x, TARGET b.x, KEYCOLS (id);", "MAP a.y, TARGET b.y, KEYCOLS (id);"],
    ),
    "a name with the sign": (MACRO + "KEYCOLS (EMP#, DEPT#two)", ["KEYCOLS (EMP#, DEPT#two)"]),
    "redefined": ("MACRO #a BEGIN LIST END;\nMACRO #a BEGIN TRACE END;\n#a", ["TRACE"]),
}


@pytest.mark.parametrize("name", MACROS)
def test_a_macro_stands_for_its_text(name: str) -> None:
    text, expected = MACROS[name]
    assert texts(text) == expected


ERRORS = {
    "MACRO #a BEGIN #b END;\nMACRO #b BEGIN #a END;\nX #a": "a macro contains itself: #A in #B in #A",
    "MACRO #a BEGIN #a END;\n#a": "a macro contains itself",
    MACRO + "#two (a)": "the macro #TWO takes 2 values, not 1",
    MACRO + "#tow (a, b)": "the macro #tow is not defined",
    MACRO + "MACROCHAR $": "MACROCHAR follows a macro",
    "MACROCHAR ab": "expected one character other than",
    "MACRO #a PARAMS (x) BEGIN END;": "the parameter X does not begin with #",
    "MACRO #a PARAMS (#x)\nBEGIN x": "expected 'END;', found the end of the file",
    "MACRO a BEGIN x END;": "expected the name of a macro",
    "MACRO #a BEGIN x END; LIST": "expected a new line after END;",
    MACRO + "X #two (a,": "expected ')', found the end of the file",
    "INCLUDE one": "a file includes itself: one includes two includes one",
    "INCLUDE none.inc": "there is no file none.inc",
    "OBEY": "expected one file name",
    "OBEY a b": "expected one file name",
}


@pytest.mark.parametrize("text", ERRORS)
def test_a_wrong_macro_or_file_is_placed(text: str) -> None:
    files = {"one": "\nOBEY two", "two": "\n\nINCLUDE one"}
    with pytest.raises(OptionError) as caught:
        read_from(files, text)
    assert ERRORS[text] in caught.value.problem
    assert caught.value.where.line is not None
    if "includes itself" in caught.value.problem:
        assert (caught.value.where.source, caught.value.where.line) == ("two", 3)


def test_a_macro_of_macros_has_a_limit() -> None:
    """Each macro doubles the one before: 2**30 times a line."""
    lines = ["MACRO #m0 BEGIN LISTLISTLIST END;"]
    lines += [f"MACRO #m{n} BEGIN #m{n - 1} #m{n - 1} END;" for n in range(1, 19)]
    with pytest.raises(OptionError, match="expands to more than"):
        texts("\n".join([*lines, "#m18"]))


def test_a_file_that_is_not_read_is_an_error() -> None:
    with pytest.raises(OptionError, match=r"more\.prm cannot be read here"):
        list(read_statements("LIST\nOBEY more.prm"))


@given(
    st.lists(
        st.sampled_from(
            [
                *MACRO.split(),
                "MACRO",
                "#two (",
                ")",
                "\n",
                ";",
                "'",
                "&",
                "MAP",
                "#a",
                "END;",
                "INCLUDE x",
            ]
        ),
        max_size=25,
    )
)
@example(["LIST"])
@settings(max_examples=examples(300), deadline=None)
def test_any_text_gives_lines_or_our_error(words: list[str]) -> None:
    try:
        read_from({"x": "LIST"}, " ".join(words))
    except OptionError:
        assert words != ["LIST"]


def test_a_file_is_not_read_within_a_macro() -> None:
    text = "MACRO #m BEGIN INCLUDE x END;\n#m\nMAP a.b, TARGET c.d;"
    with pytest.raises(
        OptionError, match="INCLUDE x is not supported: it is not supported inside a macro"
    ):
        parse_replicat(text)
