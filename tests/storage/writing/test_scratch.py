"""Files that are staged for a store are held where Spark deletes them, in its workers."""

from __future__ import annotations

from pathlib import Path
from tempfile import gettempdir

import pytest

from store_servers.bucket import Bucket
from trailgate.storage.publish.store_folder import OF_SPARK, scratch_folder
from trailgate.storage.writing.trail_location import location_of


def test_a_worker_of_spark_stages_in_a_folder_of_sparks(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OF_SPARK, f"{tmp_path}/gone,{tmp_path}")
    place = location_of(f"{bucket.url}/dirdat/ot")

    with place.backend.staged_folder(place.backend.staging("x")) as folder:
        (folder / "1").write_bytes(b"1")
        assert folder.parent == tmp_path

    assert [*tmp_path.iterdir()] == []
    (key,) = bucket.keys()
    assert key.endswith("/1")


@pytest.mark.parametrize("named", ["", "/gone", "/gone,,/proc/1/none"])
def test_others_stage_in_the_systems_folder(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setenv(OF_SPARK, named)
    place = location_of(f"{bucket.url}/dirdat/ot")

    assert scratch_folder() is None
    with place.backend.staged_folder(place.backend.staging("x")) as folder:
        assert folder.parent == Path(gettempdir())
