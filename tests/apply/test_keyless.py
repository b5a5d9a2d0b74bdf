"""A table without a key: all its columns are the key, and a NULL in one of them finds its row."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from apply.naive_batches import TABLE, block_of_images
from apply.sources import TARGETS
from apply.test_soft_delete import READ
from trailgate import ApplyError, TrailAppender, apply_trail
from trailgate.model.changes import (
    DELETE,
    INSERT,
    UPDATE,
    ChangeBatch,
)
from trailgate.model.tables import Column, Definitions, Table

KEYLESS = Table("HR.T", tuple(Column(one.name, one.data_type, 8) for one in TABLE.columns[:2]))
Image = dict[str, Any] | None


def write(prefix: Path, *operations: tuple[int, Image, Image]) -> None:
    """Write operations, each a transaction, with the images before and after them."""

    def named(image: Image) -> Image:
        return image and {name.upper(): value for name, value in image.items()}

    changes = [(kind, named(before), named(after)) for kind, before, after in operations]
    block = block_of_images(KEYLESS, changes)
    with TrailAppender(str(prefix), Definitions((KEYLESS,))) as trail:
        trail.append(ChangeBatch([block], len(operations)))
        trail.commit("all")


@pytest.mark.parametrize("name", TARGETS)
def test_rows_are_found_by_all_columns(name: str, tmp_path: Path) -> None:
    write(
        tmp_path / "ot",
        (INSERT, None, {"id": 1, "a": None}),
        (INSERT, None, {"id": 2, "a": 5}),
        (INSERT, None, {"id": 3, "a": None}),
        (UPDATE, {"id": 2, "a": 5}, {"id": 2, "a": None}),
        (DELETE, {"id": 3, "a": None}, None),
    )
    apply_trail(tmp_path / "ot", TARGETS[name][0].format(tmp_path), batch_bytes=1)
    found = sorted(READ[name](tmp_path), key=lambda row: int(row["id"]))
    assert found == [{"id": 1, "a": None}, {"id": 2, "a": None}]


@pytest.mark.parametrize("mode", ["soft-delete", "history"])
def test_so_are_versions_and_marked_rows(
    mode: Literal["soft-delete", "history"], tmp_path: Path
) -> None:
    write(
        tmp_path / "ot",
        (INSERT, None, {"id": 1, "a": None}),
        (UPDATE, {"id": 1, "a": None}, {"id": 1, "a": 2}),
        (DELETE, {"id": 1, "a": 2}, None),
    )
    to = TARGETS["duckdb"][0].format(tmp_path)
    apply_trail(tmp_path / "ot", to, mode=mode, batch_bytes=1)
    rows = READ["duckdb"](tmp_path)
    ended = [row.get("_deleted", not row.get("_is_current")) for row in rows]
    assert sorted((row["a"] or 0) for row in rows) == ([2] if mode == "soft-delete" else [0, 2])
    assert all(ended)


def test_an_update_needs_both_whole_images(tmp_path: Path) -> None:
    write(
        tmp_path / "ot", (INSERT, None, {"id": 1, "a": 2}), (UPDATE, {"id": 1}, {"id": 1, "a": 3})
    )
    with pytest.raises(ApplyError, match=r"the row does not exist|does not log all columns"):
        apply_trail(tmp_path / "ot", TARGETS["duckdb"][0].format(tmp_path))
