"""What no public document says about messages, as docs/assumptions.md has it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from trailgate.capture.capture import Capture
from trailgate.formats.delimited.options import delimited_options
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.properties import parse_properties
from trailgate.model.operations_table import to_operations
from trailgate.model.tables import Column, Definitions, Table

KEYLESS = Definitions((Table("S.T", (Column("A", 64, 9), Column("B", 64, 9))),))
PROPERTIES = """parser.type=delim
delim.sourcedefs=x
delim.header=optype,table
delim.optype=optype
delim.schemaandtable=table
delim.hasbefores=true
"""


def rows_of(
    body: bytes, more: str = "", headers: dict[str, str] | None = None
) -> list[dict[str, object]]:
    """Return the operations of one message at byte 42 of its file."""
    options = delimited_options(parse_properties(f"{PROPERTIES}{more}".encode()))
    begin = np.zeros(1, np.int64)
    batch = MessageBatch(
        data=pa.py_buffer(body),
        starts=begin,
        ends=begin + len(body),
        files=begin,
        offsets=begin + 42,
        headers=(headers or {},),
    )
    parsed = Capture(options, KEYLESS).parse(batch)
    assert not parsed.problems
    rows: list[dict[str, object]] = to_operations(parsed.batch).to_pylist(maps_as_pydicts="strict")
    return rows


@pytest.mark.parametrize(
    ("name", "id_held"),
    [
        ("ogg", "the GG_ID"),
        ("wmq", "the JMSMessageID"),
        ("activemq", "the JMSMessageID"),
        ("time", f"{42:020}"),
        ("Other", "the Other"),
        (None, "the JMSMessageID"),
    ],
)
def test_jms_id_names_the_header_of_the_message_id(name: str | None, id_held: str) -> None:
    headers = {name: f"the {name}" for name in ("GG_ID", "JMSMessageID", "Other")}
    more = "delim.seqid=$jmsid\n" + (f"jms.id={name}\n" if name else "")

    (row,) = rows_of(b"I,S.T,,1,,2", more, headers)

    assert row["seq_id"] == id_held


def test_all_columns_are_the_key_where_none_is_marked() -> None:
    update, delete = rows_of(b"U,S.T,1,1,2,3\nD,S.T,1,,2,")

    assert KEYLESS.table("S.T").keys == (0, 1)
    assert update["after"] == {"A": "1", "B": "3"}
    assert delete["before"] == {"A": "1", "B": "2"}
