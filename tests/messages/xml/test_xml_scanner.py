"""The compiled scanner against the general way: the same findings, and no message taken that is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from trailgate.errors import DecodeError, OptionError
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.properties.file import parse_properties
from trailgate.messages.xml.automaton import NotForScannerError, compile_rules
from trailgate.messages.xml.documents import Limits, parse_document
from trailgate.messages.xml.findings import Findings, Found
from trailgate.messages.xml.format import XmlFormat
from trailgate.messages.xml.options import XmlOptions, xml_options
from trailgate.messages.xml.scanner import Scanned, Scanner

NAMES = st.sampled_from(["a", "b", "c", "op"])
TEXTS = st.sampled_from(
    [
        "", "x", " y ", "\n", "&lt;&#65;", "<![CDATA[z]]>", "<![CDATA[ ]]>", "<![CDATA[]]>", "<!-- no -->",
        "1", "\u00e4", "\r\n", "&#32;", "<?pi it?>", "a]]b", ">",
    ]
)  # fmt: skip
VALUES = st.sampled_from(["1", "x", "", "a b", "&amp;", "a\tb", "\u00e4", "&#10;", ">", "'"])
ATTRIBUTES = st.dictionaries(st.sampled_from(["a", "b", "p:a", "xmlns:p", "xml:a"]), VALUES, max_size=3)


def written(name: str, attributes: dict[str, str], parts: list[str]) -> str:
    tag = name + "".join(f' {key}="{value}"' for key, value in attributes.items())
    inner = "".join(parts)
    return f"<{tag}>{inner}</{name}>" if inner else f"<{tag}/>"


ELEMENTS = st.recursive(
    st.builds(written, NAMES, ATTRIBUTES, st.lists(TEXTS, max_size=2)),
    lambda inner: st.builds(written, NAMES, ATTRIBUTES, st.lists(TEXTS | inner, max_size=6)),
    max_leaves=15,
)
STEPS = st.builds(
    lambda name, predicate: name + predicate,
    st.sampled_from(["a", "b", "c", "op", "*"]),
    st.sampled_from(
        ["", "", "", "[1]", "[2]", "[@a='1']", "[@b='x']", "[name()='a']", "[@a='1'][1]", "[2][@a='']", "[2][name()='b']"]
    ),
)  # fmt: skip
MATCHES = st.builds(
    lambda start, steps, between: start + between.join(steps),
    st.sampled_from(["/", "./", "//"]),
    st.lists(STEPS, min_size=1, max_size=2),
    st.sampled_from(["/", "/", "//"]),
) | st.just("")
PATHS = st.builds(
    lambda start, steps, accessor: "/".join([start, *steps, accessor]),
    st.sampled_from([".", ".", "..", "../..", "", "./", "/"]),
    st.lists(STEPS, max_size=2),
    st.sampled_from(["@a", "@b", "text()", "content()", "name()", "position()"]),
).map(lambda path: path.replace("///", "//"))


@st.composite
def rule_sets(draw: st.DrawFn) -> str:
    lines = []
    count = 0

    def rule(kind: str, depth: int) -> str:
        nonlocal count
        name = f"{kind}{count}"
        count += 1
        lines.append(f"{name}.type={kind}")
        match = draw(MATCHES)
        if match:
            lines.append(f"{name}.match={match}")
        if kind == "op":
            lines.append(f'{name}.schemaandtable={draw(PATHS | st.just(chr(34) + "T" + chr(34)))}')
            lines.append(f"{name}.optype={draw(PATHS)}")
        if kind == "tx":
            lines.append(f"{name}.txname={draw(PATHS)}")
        if kind == "col":
            lines.append(f"{name}.name={draw(PATHS)}")
            value = draw(PATHS | st.just('"fixed"'))
            lines.append(f"{name}.value={value}")
            lines.append(f"{name}.isnull={draw(PATHS | st.sampled_from(['./a', './/b', '.', '../b']))}")
        else:
            below = {"tx": ["op"], "op": ["op", "col", "col"]}[kind]
            kinds = draw(st.lists(st.sampled_from(below), min_size=kind == "tx", max_size=2 if depth < 3 else 0))
            if kind == "tx":
                kinds = kinds[:2]
            if depth >= 3:
                kinds = ["op"] if kind == "tx" else []
            found = [rule(each, depth + 1) for each in kinds]
            if found:
                lines.append(f"{name}.subrules={','.join(found)}")
        return name

    tops = [rule(draw(st.sampled_from(["tx", "op"])), 0) for _ in range(draw(st.integers(1, 2)))]
    return "\n".join([f"xml.rules={','.join(tops)}", *lines])


def options(rules: str) -> XmlOptions:
    try:
        return xml_options(parse_properties(f"parser.type=xml\n{rules}".encode(), "a.properties"))
    except OptionError:
        assume(False)  # noqa: FBT003  as //@a
        raise


def batch_of(bodies: list[bytes]) -> MessageBatch:
    lengths = np.array([len(body) for body in bodies], np.int64)
    starts = np.cumsum(lengths + 1) - lengths - 1
    places = np.arange(len(bodies))
    return MessageBatch(pa.py_buffer(b"\n".join(bodies)), starts, starts + lengths, places, places)


def operations(found: Findings) -> list[Any]:
    """Return the findings as they are used: each operation with those around it and its columns."""
    columns: dict[int, list[Any]] = {}
    for at, operation in enumerate(found.operation.tolist()):
        columns.setdefault(operation, []).append(values(found, found.columns, at))
    return [
        (
            int(found.message[at]), int(found.start[at]), int(found.end[at]), values(found, found.operations, at),
            list(around(found, int(found.around[at]))), transaction(found, int(found.transaction[at])),
            columns.get(at, []),
        )
        for at in range(len(found.message))
    ]  # fmt: skip


def transaction(found: Findings, record: int) -> object:
    return values(found, found.outer, record) if record >= 0 else None


def around(found: Findings, record: int) -> Iterator[Any]:
    while record >= 0:
        yield values(found, found.outer, record)
        record = int(found.above[record])


def values(found: Findings, records: Found, at: int) -> object:
    known = {
        name: bytes(found.text[places.starts[at] : places.starts[at] + places.lengths[at]]).decode()
        for name, places in records.values.items()
        if places.lengths[at] >= 0
    }
    return int(records.rule[at]), known


def scanned(given: XmlOptions, messages: MessageBatch) -> Scanned:
    try:
        return Scanner(compile_rules(given.rules), given.limits).scan(messages)
    except NotForScannerError:
        assume(False)  # noqa: FBT003
        raise


def readable(body: bytes, limits: Limits) -> bool:
    try:
        parse_document(body, limits)
    except DecodeError:
        return False
    return True


def check(given: XmlOptions, bodies: list[bytes]) -> Scanned:
    """Assert that the scanner finds what the general way does in the messages that it takes."""
    messages = batch_of(bodies)
    found = scanned(given, messages)
    taken = [number for number in range(len(bodies)) if number not in found.refused]
    assert all(readable(bodies[number], given.limits) for number in taken)
    wanted = XmlFormat(given).general(messages, taken)
    assert operations(found.findings) == operations(wanted)
    return found


@given(rule_sets(), st.lists(ELEMENTS, min_size=1, max_size=3))
def test_both_ways_find_the_same(rules: str, documents: list[str]) -> None:
    check(options(rules), [document.encode() for document in documents])
