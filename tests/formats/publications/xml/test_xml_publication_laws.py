"""Laws of reading XML publications: both ways of reading agree, cuts into batches change nothing, and any bytes give rows or our errors."""

from __future__ import annotations

import random
import tomllib
from codecs import BOM_UTF8
from itertools import chain
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from damaged_publications import part_of, xml_runs
from laws import examples
from message_cases import batch_of
from publication_files import captured, column, message, row, transaction, xml_publications
from trailgate.capture.capture import Capture
from trailgate.columnar.compiling import INTERPRETED
from trailgate.messages.message_batch import messages_from

CASES = [
    case
    for path in sorted((Path(__file__).parent / "cases").glob("*.toml"))
    for case in tomllib.loads(path.read_text())["case"]
]
BODIES = list(chain.from_iterable(case["messages"] for case in CASES))
WARM = message(f"<heartbeat sendQName='Q'/><!--{'-.' * INTERPRETED}-->").encode()


def compiled() -> Capture:
    """Return a capture that has read so much that it scans."""
    capture = xml_publications()
    assert not capture.parse(messages_from([WARM])).problems
    return capture


SCANNING = compiled()


def test_the_scanner_and_the_general_way_agree_on_every_case() -> None:
    for case in CASES:
        messages = batch_of(case)

        assert captured(SCANNING, messages) == captured(xml_publications(), messages)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
@given(xml_runs(), st.lists(st.integers(0, 20), max_size=4))
def test_cuts_into_batches_change_nothing(bodies: list[bytes], cuts: list[int]) -> None:
    messages = messages_from(bodies)
    inside = [cut for cut in cuts if cut < len(bodies)]

    whole = captured(SCANNING, messages)

    assert captured(SCANNING, messages, inside) == whole


def test_a_transaction_that_waits_does_not_end_the_one_before() -> None:
    large = ' hasLOBCols="1"'
    number = column("ID", "<integer>1</integer>")
    bodies = [
        transaction(row("insertRow", number), segment=1, last=0, commit="0001"),
        transaction(row("insertRow", number, more=large), segment=1, last=1, commit="0002"),
        part_of(1, "a", 1, 1),
    ]
    messages = messages_from([body.encode() for body in bodies])

    for cuts in [], [1], [2], [1, 2]:
        found = captured(SCANNING, messages, cuts)

        assert [each["csn"] for each in found.rows] == ["0002"]
        ((message_, problem),) = found.problems
        assert message_ == 0
        assert "has not ended when the next one begins" in problem


def test_documents_of_several_encodings_in_a_batch_keep_their_places() -> None:
    number = column("ID", "<integer>1</integer>")
    bodies = [transaction(row("insertRow", number), commit=f"000{at}") for at in range(4)]
    encodings = "utf-8", "utf-16", "utf-8", "utf-16"
    encoded = [body.encode(name) for body, name in zip(bodies, encodings, strict=True)]

    found = captured(SCANNING, messages_from(encoded))

    assert [each["csn"] for each in found.rows] == ["0000", "0001", "0002", "0003"]
    assert found.problems == []


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(BODIES), st.randoms(use_true_random=False))
def test_damaged_messages_give_rows_or_errors_in_both_ways(body: str, draw: random.Random) -> None:
    data = bytearray(body.encode())
    for _ in range(draw.randrange(1, 4)):
        at = draw.randrange(len(data))
        kind = draw.randrange(3)
        if kind == 0:
            data[at] = draw.choice(b'<>/"= 01&;a\x00\xff')
        elif kind == 1:
            del data[at : at + draw.randrange(1, 20)]
        else:
            data[at:at] = data[draw.randrange(len(data)) :][: draw.randrange(1, 40)]
        data = data or bytearray(b" ")
    messages = messages_from([bytes(data)])

    found = captured(SCANNING, messages)

    assert found == captured(xml_publications(), messages)


@given(st.binary(max_size=200))
def test_any_bytes_give_rows_or_errors(data: bytes) -> None:
    found = captured(SCANNING, messages_from([data]))

    # A message may be blank, with or without UTF-8's byte order mark.
    assert found.problems or not data.removeprefix(BOM_UTF8).strip()
