"""Publishing into a folder of a store: whole files, one state, and no message twice or missing after a kill at any request."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from capture_place import row
from store_servers.bucket import Bucket
from stored_place import KilledError, StoredPlace, killed_after, meeting, requests
from trailgate import publish_trail
from trailgate.errors import OptionError, StorageError

SMALL: Any = {"file_bytes": 300}


@pytest.fixture
def place(tmp_path: Path, bucket: Bucket) -> StoredPlace:
    place = StoredPlace(tmp_path, bucket)
    place.write(*(row(i) for i in range(12)))
    place.run("ot")
    return place


def lines(place: StoredPlace) -> list[bytes]:
    keys = [key for key in place.bucket.keys("out/") if "/." not in key]
    return b"".join(place.bucket.get(key) for key in keys).splitlines()


def cleared(place: StoredPlace) -> None:
    place.bucket.store.delete(place.bucket.keys("out/"))


def test_a_kill_at_any_request_neither_loses_nor_repeats_messages(place: StoredPlace) -> None:
    trail, out = place.url("ot"), f"{place.bucket.url}/out"
    with requests(bool) as sent:
        done = publish_trail(trail, out, **SMALL)
    expected = lines(place)
    assert (done.target, len(expected)) == (out, 12)
    assert done.files[0] == "messages-000000001.jsonl"

    for step in range(1, len(sent), place.bucket.stride(3)):
        cleared(place)
        with killed_after(step), pytest.raises(KilledError):
            publish_trail(trail, out, **SMALL)
        assert expected[: len(lines(place))] == lines(place)
        publish_trail(trail, out, **SMALL)
        assert lines(place) == expected, step


def test_of_two_runs_one_publishes(place: StoredPlace) -> None:
    trail, out = place.url("ot"), f"{place.bucket.url}/out"
    publish_trail(trail, out, **SMALL)
    expected = lines(place)
    for step in (2, 5, 9, 12, 14, 16):
        cleared(place)
        rival = partial(publish_trail, trail, out, **SMALL)
        with meeting(step, rival), suppress(StorageError):
            publish_trail(trail, out, **SMALL)
        assert lines(place) == expected, step


def test_a_folder_of_other_objects_is_left_alone(place: StoredPlace) -> None:
    place.bucket.put("out/mine", b"")

    with pytest.raises(StorageError, match=r"not empty, and was not published into: mine"):
        publish_trail(place.url("ot"), f"{place.bucket.url}/out")
    with pytest.raises(OptionError, match="a folder of messages is not written to ftp://"):
        publish_trail(place.url("ot"), "ftp://host/out")
