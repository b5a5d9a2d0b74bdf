"""Rules that are right and wrong, and paths of every kind."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from message_cases import together
from trailgate.errors import OptionError
from trailgate.formats.xml.options import XmlOptions, xml_options
from trailgate.formats.xml.rules import OTHERS, VALUES, ElementPart, parse_path
from trailgate.messages.properties import parse_properties

WRONG = tomllib.loads((Path(__file__).parent / "wrong-rules.toml").read_text())
DOC = Path(__file__).parents[3] / "docs" / "xml.md"


# The rules below xml.rules=tx, complete and as short as possible.
RULES = """\
tx.type=tx
tx.match=/a
tx.subrules=op
op.type=op
op.match=./b
op.optype=@o
op.schemaandtable="A.B"
op.subrules=col
col.type=col
col.match=./c
col.name=@n
col.value=./text()
"""


def options(text: str) -> XmlOptions:
    return xml_options(parse_properties(f"parser.type=xml\n{text}".encode(), "a.properties"))


@pytest.mark.parametrize("case", WRONG["case"], ids=lambda case: case["name"])
def test_wrong_rules_are_named(case: dict[str, Any]) -> None:
    lines = "\n".join(line for line in case["lines"].split("\n") if "=" in line)
    text = together("parser.type=xml\n" + WRONG["least"], lines)
    dropped = [line for line in case["lines"].split("\n") if line and "=" not in line]
    text = "\n".join(line for line in text.split("\n") if line.partition("=")[0] not in dropped)

    with pytest.raises(OptionError) as caught:
        xml_options(parse_properties(text.encode(), "a.properties"))

    for part in case["says"]:
        assert part in str(caught.value)


def test_rules_are_read_whole() -> None:
    found = options(WRONG["least"] + "tx.seqid=@no\n")

    (top,) = found.rules
    assert [rule.name for rule in found.all_rules()] == ["tx", "op", "col"]
    assert [rule.number for rule in found.all_rules()] == [0, 1, 2]
    assert str(top.match) == "/t"
    assert str(top.subrules[0].match) == "./o"
    assert {name: str(path) for name, path in top.subrules[0].values.items()} == {
        "schemaandtable": "./@table",
        "optype": "./@type",
    }


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/My/Element", "/My/Element"),
        ("Sub", "./Sub"),
        ("./Sub/Element", "./Sub/Element"),
        ("../../e/@a", "../../e/@a"),
        ("//e", "//e"),
        ("/My/*[2]", "/My/*[2]"),
        ("/My/Some[text() = 'v']", "/My/Some[text()='v']"),
        ("/My/*[@att ='v']/Sub/text()", "/My/*[@att='v']/Sub/text()"),
        ("*[name()='a']/content()", "./*[name()='a']/content()"),
        ("e[position()=3]/position()", "./e[3]/position()"),
        (".", "."),
        ("name()", "./name()"),
        ("a.b-c/@p:q", "./a.b-c/@p:q"),
    ],
)
def test_paths_of_the_manual(text: str, shown: str) -> None:
    path = parse_path(text, value=True)

    assert str(path) == shown
    assert parse_path(str(path), value=True) == path


@example("/a/@b")
@given(st.text(max_size=40))
def test_any_text_is_a_path_or_an_error_with_a_caret(text: str) -> None:
    assert _is_path(text) or text != "/a/@b"


@example(["a", "/", "text()"])
@given(
    st.lists(
        st.sampled_from(
            ["/", "//", "..", ".", "a", "b:c", "*", "@", "@x", "[", "]", "[1]", "[@a='v']", "text()",
             "[text()='", "'", "name()", "::", "(", " ", "=", "99999999999"]
        ),
        max_size=12,
    )
)  # fmt: skip
def test_any_pieces_are_a_path_or_an_error_with_a_caret(pieces: list[str]) -> None:
    assert _is_path("".join(pieces)) or pieces != ["a", "/", "text()"]


def _is_path(text: str) -> bool:
    """Return whether a text is a path, which must be printed so that it is read again. An error must have a caret."""
    hint, path = "", None
    try:
        path = parse_path(text, value=True)
    except OptionError as error:
        hint = error.hint
    assert hint.endswith("^") if path is None else parse_path(str(path), value=True) == path
    return path is not None


def test_parts_are_those_of_the_reference() -> None:
    assert {part.value for part in ElementPart if part is not ElementPart.EXACT_TEXT} == {
        "@",
        "text()",
        "content()",
        "name()",
        "position()",
    }


@pytest.mark.parametrize("name", [row.name for row in VALUES] + list(OTHERS))
def test_every_property_of_a_rule_is_documented(name: str) -> None:
    assert f"`{name}`" in DOC.read_text()


@example(RULES)
@given(st.text(alphabet="txopcl.=/@*$\"'\n []()12abc", max_size=200))
def test_any_rules_are_options_or_an_error(text: str) -> None:
    try:
        options(f"xml.rules=tx\n{text}")
    except OptionError:
        assert text != RULES
