"""Promises about a table that a trail defines with two types of a column."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sample_trail import NOTES, ORDERS, Op, changes
from trailgate.errors import DefinitionError
from trailgate.model.shapes import Projection, convert_to_definition
from trailgate.model.tables import Column


def test_a_column_of_another_type_is_named_with_both_types() -> None:
    batch = changes([[Op("I", 1)]])
    other = replace(ORDERS, columns=(Column("ID", 134, 8, key=True), Column("NAME", 134, 8, scale=2)))  # fmt: skip

    with pytest.raises(
        DefinitionError,
        match=r"NAME is ASCII_V \(64\) of length 60 instead of BIN64_S \(134\) of length 8 and scale 2",
    ):
        Projection.of(other).rows(batch)


def test_the_changes_of_one_table_are_a_batch_numbered_from_0() -> None:
    batch = changes([[Op("I", 1, table=NOTES), Op("I", 2), Op("I", 3, table=NOTES), Op("I", 4)]])

    chosen = convert_to_definition(batch, ORDERS)

    assert chosen.rows == 2
    (block,) = chosen.blocks
    assert block.order.tolist() == [0, 1]
    assert chosen.in_order("csn").equals(batch.in_order("csn").take([1, 3]))
    assert chosen.tx_indicators().tolist() == batch.tx_indicators()[[1, 3]].tolist()
