"""Laws of reading XML publications: both ways of reading agree, cuts into batches change nothing, and any bytes give rows or our errors."""

from __future__ import annotations

import random
import tomllib
from itertools import chain
from pathlib import Path

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from laws import examples
from message_cases import batch_of
from publication_files import captured, column, message, row, transaction, xml_publications
from trailgate.columnar.kernels.compiled import INTERPRETED
from trailgate.jobs.capture.loading import messages_from
from trailgate.messages.capture import Capture

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
    assert capture.parse(messages_from([WARM])).problems == ()
    return capture


SCANNING = compiled()


def test_the_scanner_and_the_general_way_agree_on_every_case() -> None:
    for case in CASES:
        messages = batch_of(case)

        assert captured(SCANNING, messages) == captured(xml_publications(), messages)


# Transactions with large objects, in messages that may be cut anywhere between batches.
def _part(number: int, text: str, last: int, total: int) -> str:
    given_ = (
        f'isLast="{last}" subName="S1" srcOwner="USER1" srcName="T1" rowNum="{number}" colName="L"'
    )
    return message(
        f'<lob {given_} totalDataLen="{total}" dataLen="{len(text)}"><clob>{text}</clob></lob>'
    )


@st.composite
def runs(draw: st.DrawFn) -> list[bytes]:
    found: list[str] = []
    for commit in range(draw(st.integers(1, 4))):
        segments = draw(st.integers(1, 3))
        number = 0
        for segment in range(1, segments + 1):
            rows, parts = [], []
            for _ in range(draw(st.integers(1, 2))):
                number += 1
                large = draw(st.booleans())
                more = ' hasLOBCols="1"' if large else ""
                rows.append(
                    row(
                        "insertRow",
                        column("ID", f"<integer>{number}</integer>"),
                        number=number,
                        more=more,
                    )
                )
                if large:
                    texts = draw(st.lists(st.text("abc", max_size=3), min_size=1, max_size=3))
                    total = sum(map(len, texts))
                    parts += [
                        _part(number, text, int(at == len(texts) - 1), total)
                        for at, text in enumerate(texts)
                    ]
            last = int(segment == segments)
            found.append(transaction(*rows, segment=segment, last=last, commit=f"00{commit:02}"))
            found += parts
            if draw(st.booleans()):
                found.append(message("<heartbeat sendQName='Q'/>"))
    if draw(st.booleans()):
        del found[draw(st.integers(0, len(found) - 1))]
    return [each.encode() for each in found]


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
@given(runs(), st.lists(st.integers(0, 20), max_size=4))
def test_cuts_into_batches_change_nothing(bodies: list[bytes], cuts: list[int]) -> None:
    messages = messages_from(bodies)
    inside = [cut for cut in cuts if cut < len(bodies)]

    whole = captured(SCANNING, messages)
    # Where a batch ends with a part of a large object that has no place, the transaction before is taken for bad with it.
    assume(not any("large object" in text for _, text in whole.problems))

    assert captured(SCANNING, messages, inside) == whole


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

    assert found.problems or not data.strip()
