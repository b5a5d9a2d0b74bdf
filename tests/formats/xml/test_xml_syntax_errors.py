"""Promises about XML messages that are not well-formed: the compiled loop reports the fault that expat reports, or none."""

from __future__ import annotations

import random
from typing import Final
from xml.parsers import expat

import numpy as np
import pytest

from held_captures import messages_of
from trailgate.errors import DecodeError
from trailgate.formats.xml.documents import parse_document
from trailgate.formats.xml.faults import XmlLimits, syntax_errors

LIMITS: Final = XmlLimits()
DECLARATION: Final = b"<?xml version='1.0' encoding='UTF-8'?>"
GOOD: Final = (
    b"<t><o><ID>1</ID><NAME>a b</NAME></o></t>",
    b"<t a='1' b=\"2\"><o/><!-- c --><x:y xmlns:x='u' x:a='1' z='&amp;&#65;'>t&lt;</x:y><![CDATA[a<b]]></t>\n",
    DECLARATION
    + b"\n<tx id='7'><op type='I' table=\"A.B\">\r\n<col name='ID'><after>12</after></col>\n</op></tx>",
    "<t><o n='é'>Zürich</o></t>".encode(),
    b"<a><b><c>1</c></b><?pi x?></a>",
)
PIECES: Final = (
    b"<", b">", b"&", b"'", b'"', b"/", b"=", b" ", b"\n", b"\r", b"x", b":", b"]]>", b"!", b"?", b"-", b"--", b"&no;", b"&#0;", b"&#x41;",
    b"\x01", b"</t>", b"<o>", b"a='1' a='2'", "é".encode(), b"1", b"{", b"<![CDATA[", b"<!--", b"-->", b"<?a b?>", b";", b"xmlns:q='v'", b"q:z",
    b"x:y", b"&lt;", b"\t", b"%", DECLARATION, b"xmlns=''", b"xmlns:x=''", b"xml:lang='e'", b"'&bad'", b"\xff", b"\0",
)  # fmt: skip


def damaged(draw: random.Random) -> bytes:
    """Return a document with up to three faults."""
    body = draw.choice(GOOD)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        at, kind = draw.randrange(len(body) + 1), draw.randrange(8)
        if kind < 2:
            body = body[:at]
        elif kind == 2:
            body = body[:at] + body[at + draw.choice((1, 2, 5)) :]
        elif kind == 3 and body:
            body = body[:at] + bytes([draw.choice(body)]) + body[at + 1 :]
        else:
            body = body[:at] + draw.choice(PIECES) + body[at:]
    return body


def expected(body: bytes) -> DecodeError | None:
    try:
        parse_document(body, LIMITS)
    except DecodeError as error:
        return error
    return None


def found_in(bodies: list[bytes]) -> dict[int, str]:
    numbers, errors = syntax_errors(messages_of(bodies), np.arange(len(bodies)), LIMITS)
    return dict(zip(numbers.tolist(), errors.texts().to_pylist(), strict=True))


@pytest.mark.parametrize("decodable", [True, False])
def test_faults_of_damaged_documents_are_those_of_expat(decodable: bool) -> None:
    draw = random.Random(11)
    bodies = [damaged(draw) for _ in range(4000)]
    if decodable:
        bodies = [body for body in bodies if body.decode(errors="ignore").encode() == body]

    found = found_in(bodies)

    wanted = {number: expected(body) for number, body in enumerate(bodies)}
    assert len(found) > len(bodies) / 3
    for number, text in found.items():
        assert text == str(wanted[number]), bodies[number]


COMMON: Final = {
    "cut off": GOOD[0][:25],
    "cut off in a tag": GOOD[0][:-2],
    "a wrong end tag": b"<t><o></t>",
    "an ampersand": b"<t>a & b</t>",
    "a name": b"<t>&nbsp;</t>",
    "a less-than sign": b"<t>a < b</t>",
    "a quote": b"<t a=1></t>",
    "an attribute twice": b"<t a='1' a='2'/>",
    "a second document": b"<t/><t/>",
    "text before": b"I,GG.ORDERS,1",
    "text after": b"<t/>abc",
    "a character number": b"<t>&#0;</t>",
    "a control character": b"<t>\x01</t>",
    "not ASCII": "<t>ü</u>".encode(),
    "a declaration": DECLARATION + b"<t><o></t>",
    "a namespace": b"<p:t xmlns:p='u'><p:o></p:t>",
    "JSON": b'{"a":1}',
}


@pytest.mark.parametrize("name", COMMON)
def test_common_faults_are_found_without_expat(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = expected(COMMON[name])

    def unexpected(*_: object) -> None:
        raise AssertionError("expat is not needed")

    monkeypatch.setattr(expat, "ParserCreate", unexpected)

    assert found_in([COMMON[name]]) == {0: str(wanted)}


def test_limits_are_left_to_the_document_parser() -> None:
    deep, wide = b"<t>" * 300, b"<t" + b"".join(b" a%d='1'" % i for i in range(300)) + b"></u>"

    assert found_in([deep, wide]) == {}
