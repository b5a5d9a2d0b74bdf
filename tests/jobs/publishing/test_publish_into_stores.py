"""Publishing into a folder of a store: whole files, one state, no message twice or missing after a kill at any request, and nothing left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capture_place import Place, row
from laws import sampled
from store_servers.bucket import Bucket
from stored_place import KilledError, killed_after, meeting, requests, short_parts, stops
from trailgate import publish_trail
from trailgate.errors import OptionError, StorageError
from trailgate.jobs.capture.plan import CaptureOptions
from trailgate.publish.job import PublishSummary

SMALL: Any = {"file_bytes": 500}
STATE = "out/.published.json"


class Publishing:
    """A trail on a disk, and a folder in a bucket."""

    def __init__(self, folder: Path, bucket: Bucket) -> None:
        self.bucket, self.to = bucket, f"{bucket.url}/out"
        place = Place(folder)
        place.write(*(row(i) for i in range(12)))
        place.run("ot", CaptureOptions(max_bytes=1700))
        self.trail = folder / "ot"

    def run(self) -> PublishSummary:
        return publish_trail(self.trail, self.to, **SMALL)

    def lines(self) -> list[bytes]:
        keys = [key for key in self.bucket.keys("out/") if "/." not in key]
        return b"".join(self.bucket.get(key) for key in keys).splitlines()

    def clear(self) -> None:
        self.bucket.store.delete(self.bucket.keys("out/"))
        assert self.bucket.uploads() == []

    def hidden(self) -> list[str]:
        """Return the state, what is staged, and unfinished uploads."""
        return [*(key for key in self.bucket.keys("out/") if "/." in key), *self.bucket.uploads()]


@pytest.fixture
def publishing(tmp_path: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Publishing:
    short_parts(monkeypatch, 600)
    return Publishing(tmp_path, bucket)


def test_a_kill_at_any_request_neither_loses_nor_repeats_messages(publishing: Publishing) -> None:
    with requests(bool) as sent:
        done = publishing.run()
    expected = publishing.lines()
    assert (done.target, len(expected)) == (publishing.to, 12)
    assert done.files[0] == "messages-000000001.jsonl"
    assert len(done.files) > 1

    for step in sampled(range(1, len(sent)), 7, "publishing killed"):
        publishing.clear()
        with killed_after(step), pytest.raises(KilledError):
            publishing.run()
        assert expected[: len(publishing.lines())] == publishing.lines()
        publishing.run()
        assert publishing.lines() == expected, step
        assert publishing.hidden() == [STATE], (step, sent[step])


def test_a_run_that_pauses_while_another_one_publishes_stops(publishing: Publishing) -> None:
    """What the first one staged is deleted by the other one; then it is resumed, and publishes nothing."""
    with requests(bool) as sent:
        publishing.run()
    expected, stopped = publishing.lines(), 0
    for step in sampled(range(1, len(sent) + 1), 7, "publishing paused"):
        publishing.clear()
        with meeting(step, publishing.run):
            stopped += stops(publishing.run)
        assert publishing.lines() == expected, step
        publishing.run()
        assert publishing.hidden() == [STATE], (step, sent[step - 1])
    assert stopped


def test_what_a_run_stages_after_it_was_swept_and_is_killed_goes_too(
    publishing: Publishing,
) -> None:
    """It is below a folder of an edition that is gone."""
    resumed: list[int] = []

    def pausing(number: int) -> None:
        if not resumed and sent[-1] in ("put_object", "upload_blob", "put", "write"):
            if any("messages-" in key for key in publishing.hidden()):
                resumed.append(0)
                publishing.run()
                resumed[0] = len(sent)
        elif resumed and resumed[0] and number > resumed[0] + 1:
            raise KilledError

    with requests(pausing) as sent, pytest.raises(KilledError):
        publishing.run()
    left = publishing.hidden()
    publishing.run()

    assert publishing.hidden() == [STATE] != left


def test_a_state_is_never_put_twice_with_the_same_bytes(publishing: Publishing) -> None:
    """A run that began before a folder was emptied must not find its tag there again."""
    publishing.run()
    first = publishing.bucket.get(STATE)
    publishing.clear()

    publishing.run()

    states = [json.loads(one) for one in (first, publishing.bucket.get(STATE))]
    assert states[0].pop("run") != states[1].pop("run")
    assert states[0] == states[1]


def test_a_folder_of_other_objects_is_left_alone(publishing: Publishing) -> None:
    publishing.bucket.put("out/mine", b"")

    with pytest.raises(StorageError, match=r"not empty, but nothing was published into it: mine"):
        publishing.run()
    with pytest.raises(OptionError, match="ftp:// is neither the protocol of a broker nor"):
        publish_trail(publishing.trail, "ftp://host/out")
