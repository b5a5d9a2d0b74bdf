"""Documents and paths against lxml: the same elements, strings and attributes, or both refuse."""

from __future__ import annotations

import re

from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import etree

from laws import examples
from trailgate.errors import DecodeError
from trailgate.formats.xml.documents import BLANKS, XmlDocument, XmlElement, parse_document
from trailgate.formats.xml.matching import PathMatcher
from trailgate.formats.xml.rules import parse_path

NAMES = st.sampled_from(["a", "b", "c"])
STRINGS = st.sampled_from(
    ["", "x", " y ", "\n", "&lt;&#65;", "<![CDATA[z]]>", "<!-- no -->", "1", "\u00e4"]
)
VALUES = st.sampled_from(["1", "x", "", "a b", "&amp;"])
ATTRIBUTES = st.dictionaries(NAMES, VALUES, max_size=2)


def _written(name: str, attributes: dict[str, str], parts: list[str]) -> str:
    tag = name + "".join(f' {key}="{value}"' for key, value in attributes.items())
    inner = "".join(parts)
    return f"<{tag}>{inner}</{name}>" if inner else f"<{tag}/>"


ELEMENTS = st.recursive(
    st.builds(_written, NAMES, ATTRIBUTES, st.lists(STRINGS, max_size=2)),
    lambda inner: st.builds(_written, NAMES, ATTRIBUTES, st.lists(STRINGS | inner, max_size=5)),
    max_leaves=12,
)
STEPS = st.builds(
    lambda name, predicate: name + predicate,
    st.sampled_from(["a", "b", "c", "*"]),
    st.sampled_from(["", "", "[1]", "[2]", "[@a='1']", "[@b='x']", "[name()='a']", "[@a='1'][1]"]),
)
PATHS = st.builds(
    lambda start, steps, between: start + between.join(steps),
    st.sampled_from(["/", "./", "//", ".//", "../"]),
    st.lists(STEPS, min_size=1, max_size=3),
    st.sampled_from(["/", "//"]),
)


def _oracle(text: str) -> etree._ElementTree:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    return etree.fromstring(text.encode(), parser).getroottree()


def _number(element: XmlElement, document: XmlDocument) -> int:
    return list(document.top.below()).index(element)


@given(ELEMENTS, PATHS, st.integers(0, 5))
def test_paths_lead_to_the_elements_that_xpath_finds(text: str, path: str, start: int) -> None:
    document, oracle = parse_document(text.encode()), _oracle(text)
    ours, theirs = list(document.top.below()), list(oracle.getroot().iter("*"))
    at = start % len(ours)

    found = PathMatcher({}).elements(parse_path(path, value=False), ours[at])

    wanted = [theirs.index(each) for each in theirs[at].xpath(path)]
    assert [_number(element, document) for element in found if element.name] == wanted


@given(ELEMENTS)
def test_elements_have_the_strings_and_attributes_of_lxml(text: str) -> None:
    document, oracle = parse_document(text.encode()), _oracle(text)

    for ours, theirs in zip(document.top.below(), oracle.getroot().iter("*"), strict=True):
        assert ours.name == theirs.tag
        assert {a.name: a.value for a in ours.attributes} == dict(theirs.attrib)
        assert (ours.text() or "").strip(BLANKS) == "".join(theirs.xpath("text()")).strip(BLANKS)
        whole = document.data[ours.start : ours.end].decode()
        assert etree.tostring(etree.fromstring(whole)) == etree.tostring(theirs, with_tail=False)


@given(
    ELEMENTS,
    st.lists(st.tuples(st.integers(0, 400), st.sampled_from("<>/&'\"= ab1!?[]-")), max_size=3),
)
@settings(max_examples=examples(150))
def test_documents_that_lxml_refuses_are_refused(text: str, changes: list[tuple[int, str]]) -> None:
    for at, letter in changes:
        place = at % len(text)
        text = text[:place] + letter + text[place + 1 :]
    try:
        oracle = _oracle(text)
    except etree.XMLSyntaxError:
        oracle = None
    document = _parsed(text.encode())
    if document is None:
        assert oracle is None or re.search("<!DOCTYPE|xmlns", text)
        return
    assert oracle is not None
    assert [e.name for e in document.top.below()] == [e.tag for e in oracle.getroot().iter("*")]


def _parsed(body: bytes) -> XmlDocument | None:
    """Return a document, or None where it is refused."""
    try:
        return parse_document(body)
    except DecodeError:
        return None


@example(b"<a/>")
@given(st.binary(max_size=200))
def test_any_bytes_are_a_document_or_an_error(body: bytes) -> None:
    assert _parsed(body) is not None or body != b"<a/>"


@given(ELEMENTS, st.sampled_from(["utf-8", "utf-16", "utf-16-le", "iso-8859-1", "cp037"]))
def test_encodings_give_the_same_document(text: str, encoding: str) -> None:
    declared = f'<?xml version="1.0" encoding="{encoding}"?>{text}'
    if encoding == "cp037":
        # Its declaration is not readable as ASCII, so it is refused.
        assert _parsed(declared.encode(encoding)) is None
        return
    document = parse_document(declared.encode(encoding))

    assert [e.text() for e in document.top.below()] == [
        e.text() for e in parse_document(text.encode()).top.below()
    ]
