"""Every case in ``cases/*.toml``: rules and messages, and the operations or errors that they give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from held_captures import xml_capture
from message_cases import Case, cases_of, check
from received_messages import NOW, received
from trailgate.messages.message_batch import batch_of_received


@pytest.mark.parametrize("case", cases_of(Path(__file__).parent / "cases"))
def test_case(case: Case) -> None:
    check(case, xml_capture(case["properties"]))


RULES = """
xml.rules=one,two
one.type=tx
one.match=/a
one.timestamp=@ts
one.timestamp.format=YYYYMMDD
one.subrules=op
two.type=tx
two.match=/b
two.timestamp=*ts
two.subrules=op
op.type=op
op.match=./o
op.schemaandtable="OGG.PAIR"
op.optype="I"
op.subrules=id
id.type=col
id.name="ID"
id.value=@n
"""


def test_times_of_messages_are_those_of_their_rule_or_of_their_receipt() -> None:
    rows = received(["<a ts='20100205'><o n='1'/></a>", "<b><o n='2'/></b>"])
    messages, problems = batch_of_received(rows, (0, np.arange(2)), "queue")

    parsed = xml_capture(RULES).parse(messages)

    assert not problems
    assert not parsed.problems
    times = parsed.operations()["op_ts"].cast(pa.int64()).to_pylist()
    assert times == [1_265_328_000_000_000, NOW]
    assert messages.received is not None
    assert messages.received.tolist() == [NOW, NOW]
