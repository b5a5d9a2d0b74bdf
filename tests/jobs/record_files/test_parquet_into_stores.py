"""Parquet files into a folder of a store: all of them or none, one run of several, and nothing left by those that were killed."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from laws import sampled
from store_servers.bucket import Bucket
from stored_place import (
    KilledError,
    killed_after,
    meeting,
    requests,
    short_parts,
    stops,
)
from trailgate.errors import StorageError
from trailgate.mainframe.jobs.copybook_options import CopybookOptions
from trailgate.mainframe.jobs.parquet import ParquetJob, prepare_parquet, run_local, write_part
from trailgate.mainframe.jobs.part_folder import publishing

RECORDS = 30
NOT_EMPTY = "the folder is not empty"
STATE, DONE = "out/.published.json", "out/_SUCCESS"


class Records:
    """A file of records, and a folder in a bucket."""

    def __init__(self, folder: Path, bucket: Bucket) -> None:
        self.bucket, self.data = bucket, folder / "data"
        self.data.write_bytes("".join(f"{i:04}" for i in range(RECORDS)).encode("cp037"))
        (folder / "r.cpy").write_text("01 R.\n   05 ID PIC 9(4).\n")
        own = {"copybook": str(folder / "r.cpy"), "split_bytes": 60}
        self.options = CopybookOptions.of(own)

    def job(self) -> ParquetJob:
        return prepare_parquet(str(self.data), f"{self.bucket.url}/out", self.options)

    def run(self) -> int:
        return run_local(self.job())

    def run_into(self, refused: list[bool]) -> None:
        """Run, and add to a list whether the folder was found not to be empty."""
        refused.append(stops(self.run, NOT_EMPTY))

    def ids(self) -> list[int]:
        found: list[int] = []
        for key in self.bucket.keys("out/part-"):
            found += pq.read_table(io.BytesIO(self.bucket.get(key)))["ID"].to_pylist()
        return sorted(found)

    def rest(self) -> list[str]:
        """Return all but parts, unfinished uploads too."""
        keys = [key for key in self.bucket.keys("out/") if not key.startswith("out/part-")]
        return [*keys, *self.bucket.uploads()]

    def clear(self) -> None:
        self.bucket.store.delete(self.bucket.keys("out/"))
        assert self.bucket.uploads() == []


@pytest.fixture
def records(tmp_path: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Records:
    short_parts(monkeypatch, 300)
    return Records(tmp_path, bucket)


WHOLE, LEFT = [*range(RECORDS)], [STATE, DONE]


def test_a_kill_at_any_request_leaves_what_the_next_run_completes_or_deletes(
    records: Records,
) -> None:
    with requests(bool) as sent:
        assert records.run() == RECORDS
    assert (records.ids(), records.rest()) == (WHOLE, LEFT)
    completed = again = 0
    for step in sampled(range(1, len(sent)), 8, "records killed"):
        records.clear()
        with killed_after(step), pytest.raises(KilledError):
            records.run()
        found = stops(records.run, NOT_EMPTY)
        completed, again = completed + found, again + (not found)
        assert (records.ids(), records.rest()) == (WHOLE, LEFT), (step, sent[step])
    assert completed
    assert again


def test_a_run_that_pauses_while_another_one_publishes_stops(records: Records) -> None:
    with requests(bool) as sent:
        records.run()
    stopped = 0
    for step in sampled(range(1, len(sent) - 1), 8, "records paused"):
        records.clear()
        job, rival = records.job(), list[bool]()
        with meeting(step, partial(records.run_into, rival)):
            overtaken = stops(partial(run_local, job))
        assert rival == [not overtaken], step
        stopped += overtaken
        assert (records.ids(), records.rest()) == (WHOLE, LEFT), (step, sent[step - 1])
    assert stopped


def test_a_task_that_outlives_its_run_leaves_nothing_after_the_next_look(records: Records) -> None:
    job = records.job()
    with publishing(job.folder) as parts:
        parts += [write_part(job, number, part) for number, part in enumerate(job.parts)]
        write_part(job, 0, job.parts[0])
    write_part(job, 1, job.parts[1])

    with pytest.raises(StorageError, match=NOT_EMPTY):
        records.run()

    assert (records.ids(), records.rest()) == (WHOLE, LEFT)


def test_uploads_of_others_into_the_folder_and_of_runs_into_folders_below_stay(
    records: Records,
) -> None:
    others = ["out/part-00000-1234.parquet", "out/below/part-00000-0123456789ab.snappy.parquet"]
    for key in others:
        records.bucket.store.begin(key, later=True).suspend()

    records.run()

    kept = [] if records.bucket.server.kind == "azure" else sorted(others)  # that store has none
    assert sorted(records.bucket.uploads()) == kept
    assert records.ids() == WHOLE


def test_a_folder_of_messages_is_left_as_its_edition_has_it(records: Records) -> None:
    """Somebody names it by mistake, while a run publishes into it."""
    records.bucket.put(STATE, b'{"edition": 3, "version": 1}')
    for key in ("000000003-a/messages", "000000002-a/messages"):
        records.bucket.put(f"out/.publishing/{key}", b"")

    with pytest.raises(StorageError, match=NOT_EMPTY):
        records.run()

    assert records.bucket.keys() == ["out/.published.json", "out/.publishing/000000003-a/messages"]


def test_a_failed_part_leaves_nothing(records: Records) -> None:
    job = records.job()
    gone = replace(job.parts[1], file=replace(job.parts[1].file, path="gone"))

    with pytest.raises(StorageError, match="gone"):
        run_local(replace(job, parts=(job.parts[0], gone)))

    assert records.bucket.keys() == []
    assert records.bucket.uploads() == []


def test_objects_that_come_meanwhile_are_not_mixed_with(records: Records) -> None:
    job = records.job()
    records.bucket.put("out/mine", b"")

    with pytest.raises(StorageError, match=NOT_EMPTY):
        run_local(job)

    assert records.bucket.keys() == ["out/mine"]
    assert records.bucket.uploads() == []
