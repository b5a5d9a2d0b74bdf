"""The compiled scanner against the general way: the same matches, and no message taken that is refused."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any
from xml.parsers import expat

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from laws import WHOLE, examples
from trailgate.errors import DecodeError, OptionError
from trailgate.formats.xml.automaton import NotForScannerError, compile_rules
from trailgate.formats.xml.documents import parse_document
from trailgate.formats.xml.faults import XmlLimits
from trailgate.formats.xml.kernels.characters import LAST_CHARACTER, NAME_CHARACTERS, STARTS
from trailgate.formats.xml.matches import AGAIN, MatchRecords, RuleMatches
from trailgate.formats.xml.options import XmlOptions, xml_options
from trailgate.formats.xml.reader import XmlFormat
from trailgate.formats.xml.scanner import ScanResult, XmlScanner
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.properties import parse_properties
from trailgate.messages.records import BadMessagesError

NAMES = st.sampled_from(
    ["a", "b", "c", "op", "a", "b", "c", "op", "\u0e01\u0e31", "\u0e31", "n\u0660", "\u0133"]
)
STRINGS = st.sampled_from(
    [
        "", "x", " y ", "\n", "&lt;&#65;", "<![CDATA[z]]>", "<![CDATA[ ]]>", "<![CDATA[]]>", "<!-- no -->",
        "1", "\u00e4", "\r\n", "&#32;", "&#0000000065;", "<?pi it?>", "a]]b", ">",
    ]
)  # fmt: skip
VALUES = st.sampled_from(["1", "x", "", "a b", "&amp;", "a\tb", "\u00e4", "&#10;", ">", "'"])
XML_SPACE, XMLNS_SPACE = "http://www.w3.org/XML/1998/namespace", "http://www.w3.org/2000/xmlns/"
DECLARED = st.dictionaries(
    st.sampled_from(["xmlns", "xmlns:p", "xmlns:q", "xmlns:xml", "xmlns:xmlns"]),
    st.sampled_from(["urn:p", "urn:d", "urn:x", "", "urn:&#112;", "urn: p", "urn&#10;", XML_SPACE, XMLNS_SPACE]),
    max_size=2
)  # fmt: skip
ATTRIBUTES = st.builds(
    lambda own, declared: {**own, **declared},
    st.dictionaries(st.sampled_from(["a", "b", "a", "xml:a", "p:a", "q:a"]), VALUES, max_size=3),
    st.just({}) | st.just({}) | DECLARED,
)


def written(name: str, attributes: dict[str, str], parts: list[str]) -> str:
    tag = name + "".join(f' {key}="{value}"' for key, value in attributes.items())
    inner = "".join(parts)
    return f"<{tag}>{inner}</{name}>" if inner else f"<{tag}/>"


def prefixed(document: str) -> str:
    """Return a document whose elements b and attributes b have a prefix."""
    root = document.replace("<b", "<p:b").replace("</b", "</p:b").replace(" b=", " p:b=")
    root = root.replace("<c", "<q:c").replace("</c", "</q:c")
    return f'<r xmlns:p="urn:p" xmlns:q="urn:d" xmlns="urn:d">{root}</r>'


ELEMENTS = st.recursive(
    st.builds(written, NAMES, ATTRIBUTES, st.lists(STRINGS, max_size=2)),
    lambda inner: st.builds(written, NAMES, ATTRIBUTES, st.lists(STRINGS | inner, max_size=6)),
    max_leaves=15,
)
DOCUMENTS = ELEMENTS | ELEMENTS | ELEMENTS.map(prefixed)
STEPS = st.builds(
    lambda name, predicate: name + predicate,
    st.sampled_from(["a", "b", "c", "op", "*", "a", "b", "*", "p:b", "d:c", "p:*", "d:*", "d:a", "x:a"]),
    st.sampled_from(
        ["", "", "", "[@p:b='x']", "[text()='x']", "[text()='']", "[text()='y'][1]", "[2][text()='<A']", "[1]", "[2]", "[@a='1']", "[@b='x']", "[name()='a']", "[@a='1'][1]", "[2][@a='']", "[2][name()='b']"]
    ),
)  # fmt: skip
ALIKE = st.sampled_from(["a", "*", "*", "op", "//a", "./*", "b[1]", "*[@a='1']", "*[2]"])
MATCHES = ALIKE | st.builds(
    lambda steps, between: "/" + between.join(steps),
    st.lists(STEPS, min_size=1, max_size=2),
    st.sampled_from(["/", "/", "//"]),
)
PATHS = st.builds(
    lambda start, steps, accessor: "/".join([start, *steps, accessor]),
    st.sampled_from([".", ".", ".", "..", "../.."]),
    st.lists(STEPS, max_size=2),
    st.sampled_from(["@a", "@b", "@p:b", "@x:a", "text()", "content()", "name()", "position()"]),
) | st.sampled_from(
    [
        "@a",
        "text()",
        "/a/@a",
        "/*/a/text()",
        "..//*/@a",
        "//a/@a",
        ".//*/name()",
        ".//a/text()",
        ".//*/text()",
        "..//*/content()",
        "//b/text()",
        "./a//b/text()",
        ".//a//b/@a",
    ]
)


@st.composite
def rule_sets(draw: st.DrawFn) -> str:
    lines: list[str] = []
    numbers = count()

    def rule(kind: str, depth: int) -> str:
        name = f"{kind}{next(numbers)}"
        lines.append(f"{name}.type={kind}")
        match = draw(MATCHES)
        if draw(st.integers(0, 4)):
            lines.append(f"{name}.match={match}")
        values = {
            "tx": {"txname": PATHS},
            "op": {"schemaandtable": PATHS | st.just('"T"'), "optype": PATHS},
            "col": {
                "name": PATHS,
                "value": PATHS | st.just('"fixed"'),
                "isnull": PATHS | st.sampled_from(["./a", "..//b", ".", "../b"]),
            },
        }[kind]
        lines.extend(f"{name}.{word}={draw(paths)}" for word, paths in values.items())
        below = {"tx": ["op"], "op": ["op", "col", "col", "col"], "col": []}[kind]
        if below and depth < 3:
            kinds = draw(st.lists(st.sampled_from(below), min_size=1, max_size=2))
            lines.append(f"{name}.subrules={','.join([rule(each, depth + 1) for each in kinds])}")
        return name

    tops = [rule(draw(st.sampled_from(["tx", "op"])), 0) for _ in range(draw(st.integers(1, 2)))]
    return "\n".join([f"xml.rules={','.join(tops)}", *lines])


NAMESPACES = f"xml.namespaces.p=urn:p\nxml.namespaces.d=urn:d\nxml.namespaces.x={XML_SPACE}\n"


def options(rules: str) -> XmlOptions:
    try:
        return xml_options(
            parse_properties(f"parser.type=xml\n{NAMESPACES}{rules}".encode(), "a.properties")
        )
    except OptionError:
        assume(False)
        raise


def batch_of(bodies: list[bytes]) -> MessageBatch:
    lengths = np.array([len(body) for body in bodies], np.int64)
    starts = np.cumsum(lengths + 1) - lengths - 1
    places = np.arange(len(bodies))
    return MessageBatch(pa.py_buffer(b"\n".join(bodies)), starts, starts + lengths, places, places)


def operations(found: RuleMatches) -> list[Any]:
    """Return the matches as they are used: each operation with those around it and its columns."""
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


def transaction(found: RuleMatches, record: int) -> object:
    return values(found, found.outer, record) if record >= 0 else None


def around(found: RuleMatches, record: int) -> Iterator[Any]:
    while record >= 0:
        yield values(found, found.outer, record)
        record = int(found.above[record])


def values(found: RuleMatches, records: MatchRecords, at: int) -> object:
    row = records.rows[at].tolist()
    known: dict[str, object] = {AGAIN: -1}
    for name, field in records.fields.items():
        start, length = row[field : field + 2]
        if name == AGAIN:
            known[name] = length
        elif length >= 0:
            known[name] = bytes(found.text[start : start + length]).decode()
    return row[0], known


def scanned(given: XmlOptions, messages: MessageBatch) -> ScanResult:
    try:
        return XmlScanner(compile_rules(given.rules, given.namespaces), given.limits).scan(messages)
    except NotForScannerError:
        assume(False)
        raise


def readable(body: bytes, limits: XmlLimits) -> bool:
    try:
        parse_document(body, limits)
    except DecodeError:
        return False
    return True


def check(given: XmlOptions, bodies: list[bytes]) -> ScanResult:
    """Assert that the scanner finds what the general way does in the messages that it takes."""
    messages = batch_of(bodies)
    found = scanned(given, messages)
    taken = [number for number in range(len(bodies)) if number not in found.refused]
    assert all(readable(bodies[number], given.limits) for number in taken)
    wanted, _ = XmlFormat(given).reader.apply_general_engine(messages, np.array(taken, np.int64))
    assert operations(found.matches) == operations(wanted)
    assert rules_seen(found.matches) == rules_seen(wanted)
    return found


def rules_seen(found: RuleMatches) -> set[int]:
    return {
        rule
        for records in (found.outer, found.operations, found.columns)
        for rule in records.rule.tolist()
    }


@given(rule_sets(), st.lists(DOCUMENTS, min_size=1, max_size=3))
@settings(
    max_examples=examples(50),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
def test_both_ways_find_the_same(rules: str, documents: list[str]) -> None:
    check(options(rules), [document.encode() for document in documents])


RULES = """xml.rules=t
t.type=tx
t.match=/r
t.txname=@n
t.subrules=o
o.type=op
o.match=./op
o.schemaandtable=@table
o.optype=../@kind
o.subrules=c
c.type=col
c.match=./*[@a='1']
c.name=name()
c.value=text()
c.isnull=./a
"""
OPERATIONS = st.lists(
    st.builds(
        lambda table, columns: f"<op table='{table}'>{''.join(columns)}</op>",
        VALUES.map(lambda text: text.replace("'", "")),
        st.lists(DOCUMENTS, max_size=3),
    ),
    max_size=4,
).map(lambda found: f"<r n='1' kind=\"I\">{''.join(found)}</r>")
HEADS = st.sampled_from(
    [
        "",
        "",
        "\ufeff",
        '<?xml version="1.0"?>',
        "<?xml version='1.0' encoding='UTF-8'?>\n",
        "<!-- c -->\n",
    ]
)


@settings(max_examples=examples(50))
@given(st.lists(st.builds(str.__add__, HEADS, OPERATIONS), min_size=1, max_size=5))
def test_operations_of_several_messages(documents: list[str]) -> None:
    bodies = [document.encode() for document in documents]
    given = options(RULES)

    found = check(given, bodies)

    assert not any(readable(bodies[number], given.limits) for number in found.refused)


@given(
    st.lists(OPERATIONS, min_size=1, max_size=3),
    st.lists(
        st.tuples(st.integers(0, 600), st.sampled_from([b"<", b">", b"/", b"&", b"'", b'"', b"=", b" ", b"a", b"]]>", b"\x00",
            b"\xff", b"\xef\xbf\xbf", b"<!", b"<?", b"<![CDATA[", b"-->", b"xmlns:", b"\x0b", b"&#0;", b"&#xD800;", b"&a;", b"\xc3"])),
        max_size=4,
    ),
    st.booleans(),
)  # fmt: skip
@settings(max_examples=examples(150))
def test_what_the_general_way_refuses_is_not_taken(
    documents: list[str], changes: list[tuple[int, bytes]], replaces: bool
) -> None:
    bodies = [document.encode() for document in documents]
    for place, piece in changes:
        number = place % len(bodies)
        body = bodies[number]
        at = place % (len(body) + 1)
        bodies[number] = body[:at] + piece + body[at + len(piece) * replaces :]

    given = options(RULES)

    found = check(given, bodies)

    assert not any(readable(bodies[number], given.limits) for number in found.refused)


@settings(max_examples=examples(50))
@given(st.lists(OPERATIONS, min_size=1, max_size=6), st.integers(1, 5))
def test_any_cut_into_batches_gives_the_same(documents: list[str], cut: int) -> None:
    given = options(RULES)
    bodies = [document.encode() for document in documents]

    whole = operations(scanned(given, batch_of(bodies)).matches)

    parts = []
    for start in range(0, len(bodies), cut):
        part = operations(scanned(given, batch_of(bodies[start : start + cut])).matches)
        parts += [(row[0] + start, *row[1:]) for row in part]
    assert parts == whole


def test_a_broken_message_does_not_spoil_others() -> None:
    good = b"<r kind='I'><op table='T'><x a='1'>1</x></op></r>"
    bodies = [good, b"<r xmlns:p='urn:p'><op", good, b"<!DOCTYPE r><r/>", good, b"<p:r/>", good]

    found = check(options(RULES), bodies)

    assert found.refused.tolist() == [1, 3, 5]
    assert found.matches.message.tolist() == [0, 2, 4, 6]


def test_many_names_and_records_find_room() -> None:
    names = "".join(f"<n{number} a='1'/>" for number in range(6000))
    small = "<op/>" * 5000
    bodies = [
        f"<r>{names}</r>".encode(),
        f"<r>{small}</r>".encode(),
        f"<r>{names.replace('n', 'm')}</r>".encode(),
    ]

    found = check(options(RULES), bodies)

    assert not len(found.refused)
    assert len(found.matches.message) == 5000


def test_a_message_with_too_many_names_is_an_error_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = "".join(f"<n{number}/>" for number in range(100_000))
    bodies = [f"<r>{names}</r>".encode(), b"<r><op/></r>"]
    assert not check(options(RULES), bodies).too_many_names

    monkeypatch.setattr("trailgate.formats.xml.name_table.MOST_GROWN", 1 << 16)
    found = scanned(options(RULES), batch_of(bodies))
    assert (found.refused.tolist(), found.too_many_names, found.matches.message.tolist()) == (
        [],
        [0],
        [1],
    )
    reader = XmlFormat(options(RULES)).reader
    with pytest.raises(BadMessagesError) as raised:
        reader.matches(batch_of(bodies))
    assert list(raised.value.errors) == [0]
    assert "different names" in str(raised.value.errors[0])


def test_a_match_that_begins_above_is_not_for_the_scanner() -> None:
    rare = options(RULES.replace("c.match=./*[@a='1']", "c.match=../x"))

    with pytest.raises(NotForScannerError):
        compile_rules(rare.rules, rare.namespaces)


def test_elements_anywhere_below_such_are_found_but_in_one_another() -> None:
    rules = RULES.replace("/r", "//r").replace("./op", ".//op").replace("./*[", ".//*[")
    one = "<r n='1'><x><op table='T'><y><z a='1'>1</z></y><z a='1'><z a='1'/></z></op></x></r>"
    bodies = [f"<all>{one}{one}</all>", f"<r n='2'>{one}</r>", one.replace("<y>", "<op/><y>")]

    found = check(options(rules), [body.encode() for body in bodies])

    assert found.refused.tolist() == [1, 2]
    assert len(found.matches.message) == 2


LATIN = '<?xml version="1.0" encoding="iso-8859-1"?><r kind="I"><op table="\u00e4"><x a="1">\u00fc</x></op></r>'
PLAIN = "<r kind='I'><op table='T'><y a='1'>&lt;</y></op><op table='U'/></r>"
RARE = PLAIN.replace("T", "&#0000000065;")


@pytest.mark.parametrize(
    "bodies",
    [
        [LATIN.encode("latin-1")],
        [PLAIN.encode("utf-16"), LATIN.replace("iso-8859-1", "utf-16").encode("utf-16-be")],
        [PLAIN.encode(), LATIN.encode("latin-1"), PLAIN.encode(), RARE.encode()],
        [LATIN.encode("latin-1"), PLAIN.encode(), RARE.encode("utf-16"), PLAIN.encode("utf-8-sig")],
    ],
    ids=["one other", "two others", "mixed", "mixed, another first"],
)
def test_messages_of_all_encodings_give_operations_together(bodies: list[bytes]) -> None:
    bodies *= 400
    given = options(RULES)

    form = XmlFormat(given)
    found = form.records(batch_of(bodies)).matches

    assert operations(found) == operations(
        form.reader.apply_general_engine(batch_of(bodies), np.arange(len(bodies)))[0]
    )


def test_names_that_occur_are_known() -> None:
    body = b"<r xmlns:p='urn:p' kind='I'><p:op p:table='T'/><x/></r>"

    assert set(scanned(options(RULES), batch_of([body])).names) == {"r", "kind", "op", "table", "x"}


def test_names_have_the_characters_that_expat_allows() -> None:
    def is_read(text: str) -> bool:
        try:
            expat.ParserCreate("utf-8").Parse(text.encode(), True)
        except expat.ExpatError:
            return False
        return True

    points = [point for point in range(0x80, LAST_CHARACTER + 1) if not 0xD800 <= point < 0xE000]
    starting = [point for point in points if NAME_CHARACTERS[point] == STARTS]
    allowed = [point for point in points if NAME_CHARACTERS[point]]
    assert is_read("<r>" + "".join(f"<{chr(point)}/>" for point in starting) + "</r>")
    assert is_read(f"<a{''.join(map(chr, allowed))}/>")
    assert not any(is_read(f"<{chr(point)}/>") for point in set(points).difference(starting))
    assert not any(is_read(f"<a{chr(point)}/>") for point in set(points).difference(allowed))


COLUMN = "c{0}.type=col\nc{0}.match=./{1}\nc{0}.name=@n\nc{0}.value=text()\n"
MOST_NAMES = 3000 if WHOLE else 700
MANY = {
    "names": (
        [f"n{number}" for number in range(MOST_NAMES)],
        f"<n7 n='a'>x</n7><n{MOST_NAMES - 1} n='b'>y</n{MOST_NAMES - 1}>",
    ),
    "attributes": (
        [f"*[@n='{number}']" for number in range(400)],
        "<x n='7'>x</x><x n='399'>y</x><x n='400'>z</x>",
    ),
    "positions": ([f"x[{number}]" for number in range(1, 60)], "<x n='a'>1</x><y/>" * 70),
    "both": (
        [f"x[@n='{number}'][{place}]" for number in range(4) for place in (1, 3)],
        "".join(f"<x n='{number % 10}'>{number}</x>" for number in range(40)),
    ),
}


@pytest.mark.parametrize("kind", MANY)
def test_any_number_of_columns_is_followed(kind: str) -> None:
    matches, inside = MANY[kind]
    rules = RULES.partition("c.type")[0].replace(
        "=c\n", f"={','.join(f'c{n}' for n in range(len(matches)))}\n"
    )
    rules += "".join(COLUMN.format(number, match) for number, match in enumerate(matches))

    found = check(options(rules), [f"<r><op table='T'>{inside}</op></r>".encode()])

    assert not len(found.refused)
    assert len(found.matches.operation)


def test_large_parts_of_a_message_find_room() -> None:
    deep = 1000
    spaces = "".join(f" xmlns:p{number}='urn:{number}' p{number}:a='1'" for number in range(1500))
    pieces = "".join(f"{number}<!-- -->" for number in range(9000))
    tall = "<x>" * deep + "</x>" * deep
    body = f"<r>{tall}<op{spaces} table='T'><x a='1'>{pieces}</x></op></r>"
    given = options(f"xml.maxdepth=2000\n{RULES}")

    found = check(given, [body.encode(), b"<r><op/></r>"])

    assert not len(found.refused)
