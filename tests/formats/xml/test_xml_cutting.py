"""Long messages are cut: the operations are those of the whole message, and what is wrong with it is too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from held_captures import xml_capture
from laws import examples
from trailgate.capture.capture import Capture
from trailgate.errors import DecodeError
from trailgate.formats.xml import splitter as cutter
from trailgate.formats.xml.documents import parse_document
from trailgate.formats.xml.options import XmlOptions
from trailgate.messages.message_batch import messages_from
from trailgate.messages.units import TransactionState

RULES = """xml.rules=t
t.type=tx
t.match=//t[@a='1']
t.timestamp=*ts
t.txname=../@n
t.subrules=o
o.type=op
o.match=.//op
o.schemaandtable="OGG.PAIR"
o.optype=@k
o.txowner=/batch/@owner
o.subrules=i,c
i.type=col
i.name="ID"
i.value=position()
c.type=col
c.match=./c[1]
c.name="NAME"
c.value=text()
c.isnull=../../@null
"""
STRINGS = st.sampled_from(["", "x", " y ", "&lt;&#65;", "<![CDATA[</t>]]>", "<!-- </t> -->", "\u00e4", "<?pi <t> ?>"])  # fmt: skip
OPERATIONS = st.builds(
    lambda kind, text, more: f"<op k='{kind}'><c>{text}</c>{more}</op>",
    st.sampled_from("IUD"),
    STRINGS,
    st.sampled_from(["", "<c>z</c>", "<t a='1'/>"]),
)
TRANSACTIONS = st.builds(
    lambda mark, null, between, operations: f"<t a='{mark}'{null}>{between.join(operations)}</t>",
    st.sampled_from("1112"),
    st.sampled_from(["", " null=''"]),
    st.sampled_from(["", "\n", "<x>", "&gt;"]).map(lambda text: "<x/>" if text == "<x>" else text),
    st.lists(OPERATIONS, max_size=3),
)
GROUPS = st.builds(
    lambda tag, inner: f"<{tag}>{''.join(inner)}</{tag.split()[0]}>",
    st.sampled_from(["g", "g n='1'", "p:g xmlns:p='urn:p' n='&amp;'"]),
    st.lists(TRANSACTIONS | STRINGS, max_size=4),
)
DOCUMENTS = st.builds(
    lambda head, owner, inner: f"{head}<batch{owner}>{''.join(inner)}</batch>\n",
    st.sampled_from(["", "\ufeff", "<?xml version='1.0' encoding='utf-8'?>\n", "<!-- c -->"]),
    st.sampled_from([" owner='me'", " owner='&quot;'"]),
    st.lists(GROUPS | TRANSACTIONS | STRINGS, max_size=6),
)


def chunks_of(body: bytes, size: int) -> Callable[[], Iterator[bytes]]:
    def chunks() -> Iterator[bytes]:
        for at in range(0, len(body), size):
            yield body[at : at + size]

    return chunks


def whole(capture: Capture, body: bytes) -> pa.RecordBatch:
    parsed = capture.parse(messages_from([body]))
    assert not parsed.problems, parsed.problems[0].error
    return parsed.operations()


def cut(capture: Capture, body: bytes, size: int) -> list[pa.RecordBatch]:
    return cut_of(capture, chunks_of(body, size))


def cut_of(
    capture: Capture, chunks: Callable[[], Iterator[bytes]], longest: int = 1 << 20
) -> list[pa.RecordBatch]:
    assert capture.cutter is not None
    assert capture.cutter.why_not() == ""
    found, state = [], TransactionState()
    for batch in capture.cutter.cut(chunks, 0, longest):
        parsed = capture.parse(batch, state)
        assert not parsed.problems, parsed.problems[0].error
        state = parsed.state
        found.append(parsed.operations())
    return found


def rows(batches: list[pa.RecordBatch]) -> list[dict[str, object]]:
    return [row for batch in batches for row in batch.to_pylist()]


@given(DOCUMENTS, st.integers(1, 300), st.sampled_from([0, 20, cutter.BETWEEN]), st.booleans())
@settings(deadline=None)
def test_a_message_that_is_cut_gives_the_operations_of_the_whole(
    text: str, size: int, between: int, prefixed: bool
) -> None:
    rules = RULES
    if prefixed:
        rules = rules.replace("//t[", "//d:t[").replace(".//op", ".//d:op")
        rules += "xml.namespaces.d=urn:d\n"
        text = text.replace("<batch", "<batch xmlns='urn:d'").replace("<g>", "<g xmlns=''>")
    capture = xml_capture(rules)

    with patch.object(cutter, "BETWEEN", between):
        found = rows(cut(capture, text.encode(), size))

    assert found == rows([whole(capture, text.encode())])


FILLED = {
    "comment": "<!--{}-->",
    "tag": "<x a='>'{}/>",
    "CDATA section": "<![CDATA[{}]]>",
    "processing instruction": "<?x {}?>",
    "siblings": "{}",
}


@pytest.mark.parametrize("what", FILLED)
def test_what_is_long_between_transactions_is_read(what: str) -> None:
    inner = "<x>1</x>" * 150_000 if what == "siblings" else " " * 1_500_000
    text = f"<batch><g n='1'>{FILLED[what].format(inner)}<t a='1'><op k='I'><c>x</c></op></t></g></batch>"
    capture = xml_capture(RULES)
    longest = 1 << 20 if what == "siblings" else 1 << 22

    found = rows(cut_of(capture, chunks_of(text.encode(), 1 << 16), longest))

    assert found == rows([whole(capture, text.encode())])


def test_twice_as_many_blanks_in_a_tag_take_twice_the_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Work is the bytes that are copied into the text, and those in which the end of the tag is searched."""
    copied = searched = 0
    set_text, unfinished = cutter._Cutting._set_text, cutter._Cutting._unfinished_token

    def copying(self: Any, *parts: Any) -> None:
        nonlocal copied
        copied += sum(map(len, parts))
        set_text(self, *parts)

    def searching(self: Any) -> str:
        nonlocal searched
        searched += self.size
        return unfinished(self)

    monkeypatch.setattr(cutter._Cutting, "_set_text", copying)
    monkeypatch.setattr(cutter._Cutting, "_unfinished_token", searching)

    def work(blanks: int) -> tuple[int, int]:
        nonlocal copied, searched
        copied = searched = 0
        text = f"<batch><g n='1'{' ' * blanks}><t a='1'><op k='I'><c>x</c></op></t></g></batch>"
        assert (
            len(rows(cut_of(xml_capture(RULES), chunks_of(text.encode(), 1 << 14), 1 << 24))) == 1
        )
        return copied, searched

    (copied_once, searched_once), twice = work(1 << 20), work(2 << 20)

    assert copied_once > 1 << 20 < searched_once
    assert twice[0] < 2.2 * copied_once
    assert twice[1] < 2.2 * searched_once


@pytest.mark.parametrize("what", [what for what in FILLED if what != "siblings"])
def test_markup_that_is_too_long_is_named(what: str) -> None:
    text = f"<batch>{FILLED[what].format(' ' * 1_500_000)}</batch>"

    with pytest.raises(DecodeError, match=f"a {what} is longer than 1048576 bytes .*byte 7"):
        cut_of(xml_capture(RULES), chunks_of(text.encode(), 1 << 16))


# A chunk ends in a start tag at the depth of an element that ended after the last cut.
REPLACED = (
    "<batch>"
    + "<g><t a='1'><op k='I'><c>x</c></op></t></g>" * 10
    + "<p:g xmlns:p='u'><t></t></p:g></batch>"
)


@given(DOCUMENTS, st.integers(1, 300), st.sampled_from(["utf-16", "utf-16-be", "iso-8859-1"]))
@example(REPLACED, 1, "utf-16")
@settings(deadline=None, max_examples=examples(30))
def test_any_encoding_is_cut(text: str, size: int, encoding: str) -> None:
    capture = xml_capture(RULES)
    inner = text.removeprefix("\ufeff").removeprefix("<?xml version='1.0' encoding='utf-8'?>\n")
    body = f"<?xml version='1.0' encoding='{encoding}'?>{inner}".encode(encoding)

    assert rows(cut(capture, body, size)) == rows([whole(capture, body)])


@given(
    DOCUMENTS,
    st.integers(0, 600),
    st.sampled_from(["", "<", "&", "</t>", "\x00", "]]>", "<!DOCTYPE a>", "<b b='' b=''>", "q:"]),
    st.integers(1, 300),
)
@settings(deadline=None)
def test_what_is_wrong_with_a_message_is_found_as_in_the_whole(
    text: str, place: int, piece: str, size: int
) -> None:
    body = text.encode()
    at = place % (len(body) + 1)
    body = body[:at] + piece.encode() + body[at + 1 :]
    capture = xml_capture(RULES)
    assert isinstance(capture.options, XmlOptions)
    try:
        parse_document(body, capture.options.limits)
    except DecodeError as error:
        wanted = error
    else:
        return

    assert capture.cutter is not None
    batches = capture.cutter.cut(chunks_of(body, size), 0, 1 << 20)

    with pytest.raises(DecodeError) as caught:
        list(batches)

    assert str(caught.value) == str(wanted)


@given(st.integers(1, 300), st.sampled_from([0, 20, cutter.BETWEEN]))
@settings(deadline=None)
def test_without_transactions_the_root_element_is_left_however_the_message_is_read(
    size: int, between: int
) -> None:
    prolog = f"<?xml version='1.0'?><!-- <a> {'x' * 90} --> <?p <b> ?>\n"
    body = f"{prolog}<root a='>'>{'<other/>' * 9}</root>".encode()
    capture = xml_capture(RULES)
    assert capture.cutter is not None

    with patch.object(cutter, "BETWEEN", between):
        (batch,) = capture.cutter.cut(chunks_of(body, size), 0, 1 << 20)

    assert [batch.data.to_pybytes()] == [b"<root a='>'></root>"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("t.match=//t[2]", "the match of t counts elements"),
        ("t.txname=position()", "t.txname needs the position()"),
        ("t.txname=../name/text()", "t.txname is found beside"),
        ("t.txname=../text()", "t.txname needs the text()"),
        ("o.txowner=/batch/x/@owner", "o.txowner is found beside"),
        ("o.txowner=//x/@owner", "o.txowner is found beside"),
        ("t.match=", "the whole message is one transaction"),
    ],
)
def test_rules_that_need_the_whole_message_are_named(line: str, reason: str) -> None:
    name = line.partition("=")[0] + "="
    lines = [each for each in RULES.splitlines() if not each.startswith(name)]
    capture = xml_capture("\n".join([*lines, line] if line != name else lines))

    assert capture.cutter is not None
    assert capture.cutter.why_not().startswith(reason)
