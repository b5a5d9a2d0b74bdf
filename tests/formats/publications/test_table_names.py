"""Names of tables in publications: each comes back as it was, whatever characters its parts have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from publication_strings import capture_of, parse_all
from sample_trail import ORDERS, Op, changes
from trailgate.capture.formats import publish_options, writer_for
from trailgate.model.table_names import join_owner, split_owner
from trailgate.model.tables import Definitions

NAMES = {
    "S.T": ("S", "T"),
    'S."A.B"': ("S", "A.B"),
    '"X.Y".T': ('"X.Y"', "T"),
    '"X.Y"."A.B"': ('"X.Y"', "A.B"),
    'S."A""B"': ("S", 'A"B'),
    "C.S.T": ("C.S", "T"),
    'C.S."A.B"': ("C.S", "A.B"),
    "S.A B": ("S", "A B"),
    "S.KÜCHE": ("S", "KÜCHE"),
}


@pytest.mark.parametrize("name", NAMES)
def test_the_owner_is_what_is_before_the_last_part(name: str) -> None:
    assert split_owner(name) == NAMES[name]
    assert join_owner(*split_owner(name)) == name


@pytest.mark.parametrize("format_", ["delimited", "xml"])
@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_a_table_comes_back(name: str, format_: str) -> None:
    table = replace(ORDERS, name=name)
    batch = changes([[Op("I", 1, "one", table=table)]])
    block = replace(
        batch.blocks[0],
        tx_id=pa.array(["0000:0001"]),
        csn=pa.array(["0000:0001"]),
        order=np.zeros(1, np.int64),
    )
    writer = writer_for(format_, publish_options(format_, {}))
    made = [writer.write(replace(batch, blocks=[block])), writer.finish()]
    bodies = [body for part in made for body in part.bodies.to_pylist()]

    found, parsed = parse_all(capture_of(Definitions((table,))), [bodies])

    assert [list(one.problems) for one in parsed if one.problems] == []
    assert [(one["table"], one["after"]) for one in found] == [(name, {"ID": "1", "NAME": "one"})]
