"""The classic attacks are refused by name, in little memory and time."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from held_captures import xml_capture
from trailgate.errors import DecodeError
from trailgate.formats.xml.documents import parse_document
from trailgate.messages.message_batch import messages_from

RULES = """xml.rules=t
t.type=tx
t.match=//t
t.subrules=o
o.type=op
o.match=./o
o.schemaandtable="OGG.PAIR"
o.optype="I"
o.subrules=c
c.type=col
c.name="ID"
c.value=@id
"""

BOMB = b'<!DOCTYPE a [<!ENTITY a0 "x">%s]><a>&a9;</a>' % b"".join(
    b'<!ENTITY a%d "%s">' % (i, b"&a%d;" % (i - 1) * 10) for i in range(1, 10)
)
ATTACKS = {
    "entity bomb": (BOMB, "document type"),
    "external entity": (
        b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>',
        "document type",
    ),
    "external document type": (
        b'<!DOCTYPE a SYSTEM "http://example.com/a.dtd"><a/>',
        "document type",
    ),
    "deep nesting": (b"<a>" * 100_000, "nested deeper than 256"),
    "many attributes": (
        b"<a " + b" ".join(b'b%d="1"' % i for i in range(20_000)) + b"/>",
        "more than 10000 attributes",
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_by_name(name: str) -> None:
    body, says = ATTACKS[name]
    tracemalloc.start()
    start = time.process_time()

    with pytest.raises(DecodeError, match=says):
        parse_document(body)

    assert time.process_time() - start < 2
    assert tracemalloc.get_traced_memory()[1] < 20 * len(body) + (1 << 20)
    tracemalloc.stop()


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_by_name_in_a_message_that_is_cut(name: str) -> None:
    body, says = ATTACKS[name]
    cutter = xml_capture(RULES).cutter
    assert cutter is not None
    batches = cutter.cut(lambda: iter([body]), 0, 1 << 30)

    with pytest.raises(DecodeError, match=says):
        list(batches)


def test_the_limit_of_depth_can_be_any() -> None:
    deep = b"<a>" * 20_000 + b"</a>" * 20_000
    capture = xml_capture(f"{RULES}xml.maxdepth=30000\n")

    parsed = capture.parse(messages_from([b'<t><o id="1"/>' + deep + b"</t>"]))

    assert not parsed.problems
    assert parsed.batch.rows == 1
