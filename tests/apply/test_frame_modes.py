"""Batches of operations in any order, some of them delivered twice, are in each mode what the oracle makes of the trail that they are from: what the sink of Spark applies."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pytest

from apply.memory_target import KilledError, KilledTarget
from apply.mode_places import SHARES, Place
from apply.test_modes import CASES, Case, check
from laws import LONG, chance, histories, sampled
from trailgate import ApplyError, read_trail
from trailgate.apply.jobs import tables as apply_tables
from trailgate.apply.jobs.frames import FrameApplier
from trailgate.apply.targets.target import ApplyTarget
from trailgate.storage.files.trail_files import find_trail
from trailgate.storage.writing.table_writing import to_changes

CHOSEN: Final = [case for case in CASES if case.on_error != "ignore"]


def delivered(own: random.Random, folder: Path, case: Case, where: Place) -> ApplyError | None:
    """Apply the trail as micro-batches of whole transactions, from any of those before; return the error that stopped them."""
    table = read_trail(folder / "ot").read_all()
    ids = table["tx_id"].to_pylist()
    begins = [at for at in range(len(ids)) if at == 0 or ids[at] != ids[at - 1]]
    cuts = sorted({0, *own.sample(begins, min(len(begins), own.randint(0, 3)))})
    work = FrameApplier(where.to, case.options(folder, 1), str(folder / "ot"))
    definitions = find_trail(folder / "ot").definitions

    def opened(_: str, group: str, __: str = "") -> ApplyTarget:
        target = where.open(group)
        return KilledTarget(target, own.randrange(4)) if own.random() < 0.3 else target

    begin = 0
    while begin < len(cuts):
        ends = [*cuts[1:], len(ids)]
        rows = np.array(own.sample(range(cuts[begin], ends[begin]), ends[begin] - cuts[begin]))
        parts = np.array_split(rows, own.randint(1, 3))
        tasks = [
            table.take(pa.array(part)).combine_chunks().to_batches() for part in parts if len(part)
        ]
        batches = [one for task in tasks for one in to_changes(definitions, task)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(apply_tables, "open_target", opened)
            try:
                work.apply(batches)
            except KilledError:
                begin = own.randint(0, begin)
                continue
            except ApplyError as error:
                return error
        begin = own.randint(0, begin) if own.random() < 0.2 else begin + 1
    return None


@LONG
@pytest.mark.parametrize("case", sampled(CHOSEN, 12, "frames"), ids=str)
def test_frames_give_what_the_trail_gives(case: Case, tmp_path: Path) -> None:
    for number in range(histories(2, tests=case.among(CHOSEN))):
        own = chance(f"frames {case} {number}")
        folder = tmp_path / str(number)
        folder.mkdir()
        check(own, folder, case, case.place(own.choice(SHARES), folder), delivered)
        shutil.rmtree(folder)
