"""A later run of a publication notices that the trail is not the one before: nothing is left out silently."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest

from memory_broker import FaultyBroker
from sample_trail import NOTES, Op, write_trail
from trailgate.errors import OptionError, StorageError
from trailgate.jobs.retries import Retries
from trailgate.publish.job import Publication, PublicationSettings, PublishSummary, publish_trail
from trailgate.publish.senders.broker_sink import BrokerSink
from trailgate.storage.publish.store_folder import STATE

Publish = Callable[[Path], PublishSummary]
NEW = ("csn", "digest", "reached")  # fields that states of earlier versions lack

FILES = [[[Op("I", 10 * file + n, "text")] for n in range(3)] for file in range(4)]


def cut(trail: Path) -> None:
    last = Path(f"{trail}000000003")
    with last.open("r+b") as file:
        file.truncate(last.stat().st_size // 2)


def remove_first(trail: Path, count: int = 3) -> None:
    for number in range(count):
        Path(f"{trail}{number:09}").unlink()


def write_shorter(trail: Path) -> None:
    Path(f"{trail}000000003").unlink()


def write_another(trail: Path) -> None:
    other = [[[Op("I", 10 * file + n, "another text")] for n in range(3)] for file in range(4)]
    write_trail(trail, other)


@pytest.mark.parametrize(
    ("first", "change", "problem"),
    [
        (4, cut, "was cut back.*was published up to"),
        (4, write_shorter, "was cut back.*was published up to"),
        (4, write_another, "another trail was written.*was published up to"),
        (1, remove_first, "files number 0 to 2 are missing"),
    ],
)
def test_a_trail_that_is_not_continued_is_refused(
    tmp_path: Path, first: int, change: Callable[[Path], None], problem: str
) -> None:
    trail = write_trail(tmp_path / "ot", FILES[:first])
    assert publish_trail(trail, tmp_path / "to", "json").messages == 3 * first
    write_trail(trail, FILES)
    change(trail)

    with pytest.raises(StorageError, match=f"{problem}.*publish the present ones"):
        publish_trail(trail, tmp_path / "to", "json")


def publish_to_folder(folder: Path) -> Publish:
    return lambda trail: publish_trail(trail, folder / "to", "json")


def publish_to_broker(monkeypatch: pytest.MonkeyPatch) -> Publish:
    """Return a function that publishes to one broker in memory."""
    broker = FaultyBroker(Random(0), 0.0)

    def memory_sink(*_: object) -> BrokerSink:
        return BrokerSink(broker, "memory", Retries(60))

    monkeypatch.setattr("trailgate.publish.job.broker_sink", memory_sink)
    return lambda trail: publish_trail(trail, "kafka://memory/topic", "json")


@pytest.fixture(params=["folder", "broker"])
def publish(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Publish:
    is_folder = request.param == "folder"
    return publish_to_folder(tmp_path) if is_folder else publish_to_broker(monkeypatch)


@pytest.mark.parametrize(
    ("seen", "purged", "problem"),
    [
        (3, 2, None),  # the last file that was read is there
        (3, 3, "file number 2 is missing: the trail was read up to position 2:"),
        (2, 3, "files number 1 to 2 are missing: the trail was read up to position 1:"),
        (4, 3, None),
    ],
)
def test_only_files_that_were_read_to_their_end_may_be_removed(
    tmp_path: Path, publish: Publish, seen: int, purged: int, problem: str | None
) -> None:
    trail = write_trail(tmp_path / "ot", FILES[:seen])
    assert publish(trail).messages == 3 * seen
    write_trail(trail, FILES)
    remove_first(trail, purged)

    if problem is None:
        assert publish(trail).messages == 3 * (4 - seen)
    else:
        with pytest.raises(StorageError, match=f"{problem}.*now begins at file number {purged}"):
            publish(trail)


def test_a_file_may_be_removed_once_its_successor_was_seen(
    tmp_path: Path, publish: Publish
) -> None:
    trail = write_trail(tmp_path / "ot", FILES[:3])
    publish(trail)
    write_trail(trail, [*FILES[:3], []])
    assert publish(trail).messages == 0
    write_trail(trail, FILES)
    remove_first(trail, 3)

    assert publish(trail).messages == 3


def test_files_without_the_chosen_tables_are_not_needed_again(tmp_path: Path) -> None:
    notes = [[Op("I", 1, "text", table=NOTES)]]
    trail = write_trail(tmp_path / "ot", [notes, *FILES[:2]])
    chosen = partial(publish_trail, to=tmp_path / "to", format="json", tables="*.NOTES")
    assert chosen(trail).messages == 1
    write_trail(trail, [notes, *FILES[:2], notes])
    remove_first(trail, 2)

    assert chosen(trail).messages == 1


def test_a_file_that_goes_while_a_run_follows_is_missed(tmp_path: Path) -> None:
    trail = write_trail(tmp_path / "ot", FILES[:2])
    with Publication(trail, tmp_path / "to", PublicationSettings(format="json")) as publication:
        publication.run()
        write_trail(trail, FILES)
        remove_first(trail, 2)
        with pytest.raises(StorageError, match=r"file number 1 was removed.*another folder"):
            publication.run()


def test_a_state_of_an_earlier_version_continues(tmp_path: Path) -> None:
    trail = write_trail(tmp_path / "ot", FILES[:3])
    publish_trail(trail, tmp_path / "to", "json")
    path = tmp_path / "to" / STATE
    state = json.loads(path.read_text())
    path.write_text(json.dumps({name: state[name] for name in state if name not in NEW}))
    write_trail(trail, FILES)

    assert publish_trail(trail, tmp_path / "to", "json").messages == 3


def test_a_first_run_says_that_earlier_files_are_missing(tmp_path: Path) -> None:
    trail = write_trail(tmp_path / "ot", FILES)
    remove_first(trail, 2)

    (notice,) = publish_trail(trail, tmp_path / "to", "json").notices
    assert notice.startswith("the trail begins at file number 2")


def test_a_group_needs_a_name(tmp_path: Path) -> None:
    trail = write_trail(tmp_path / "ot", FILES)
    with pytest.raises(OptionError, match="the value of group is empty"):
        publish_trail(trail, "kafka://127.0.0.1:1/topic", "json", group="")
