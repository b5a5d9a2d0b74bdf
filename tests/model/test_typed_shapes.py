"""Promises about a table that a trail defines with two types of a column."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sample_trail import ORDERS, Op, changes
from trailgate.errors import DefinitionError
from trailgate.model.shapes import Projection
from trailgate.model.tables import Column


def test_a_column_of_another_type_is_named_with_both_types() -> None:
    batch = changes([[Op("I", 1)]])
    other = replace(ORDERS, columns=(Column("ID", 134, 8, key=True), Column("NAME", 134, 8, scale=2)))  # fmt: skip

    with pytest.raises(
        DefinitionError,
        match=r"NAME is ASCII_V \(64\) of length 60 instead of BIN64_S \(134\) of length 8 and scale 2",
    ):
        Projection.of(other).rows(batch)
