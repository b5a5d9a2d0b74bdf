"""A document that is not well-formed is an error with a hint at what to try, on each way to read it."""

import pytest

from trailgate.errors import DecodeError
from trailgate.formats.xml.documents import check_document, parse_document
from trailgate.formats.xml.faults import XmlLimits

FAULTS = {
    b"": "Is the message empty or cut short?",
    b"<a><b/>": "Is the message empty or cut short?",
    b"<a><b": "Is the message cut short?",
    b"<a/>\n<a/>": "one per line (--message-per line)",
    b"<a>x & y</a>": "In text & is written &amp; and < is &lt;",
    b"<a b=c/>": "values of attributes are quoted",
    b"<a>\x01</a>": "control characters are not allowed",
    b"<a><b></a></b>": "has another name than this end tag",
    b"<a>&eacute;</a>": "numbers such as &#233;",
    b"<p:a/>": "has to declare the prefix: xmlns:PREFIX",
}


@pytest.mark.parametrize("body", FAULTS)
def test_a_document_that_is_not_well_formed_has_a_hint(body: bytes) -> None:
    limits = XmlLimits()
    with pytest.raises(DecodeError) as parsed:
        parse_document(body, limits)
    with pytest.raises(DecodeError) as checked:
        check_document([body], limits)

    assert FAULTS[body] in parsed.value.hint
    assert checked.value.hint == parsed.value.hint


def test_text_of_another_encoding_than_utf_8_has_a_hint() -> None:
    with pytest.raises(DecodeError, match=r'declare another encoding: <.xml version="1.0" enc'):
        parse_document("<a>Ä</a>".encode("latin-1"), XmlLimits())
