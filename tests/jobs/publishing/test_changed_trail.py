"""A later run of a publication notices that the trail is not the one before: nothing is left out silently."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sample_trail import Op, write_trail
from trailgate.errors import OptionError, StorageError
from trailgate.publish.job import publish_trail

FILES = [[[Op("I", 10 * file + n, "text")] for n in range(3)] for file in range(4)]


def cut(trail: Path) -> None:
    last = Path(f"{trail}000000003")
    with last.open("r+b") as file:
        file.truncate(last.stat().st_size // 2)


def remove_first(trail: Path) -> None:
    for number in range(3):
        Path(f"{trail}{number:09}").unlink()


def write_shorter(trail: Path) -> None:
    Path(f"{trail}000000003").unlink()


def write_another(trail: Path) -> None:
    other = [[[Op("I", 10 * file + n, "another text")] for n in range(3)] for file in range(4)]
    write_trail(trail, other)


@pytest.mark.parametrize(
    ("first", "change", "problem"),
    [
        (4, cut, "was cut back"),
        (4, write_shorter, "was cut back"),
        (4, write_another, "another trail was written"),
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

    with pytest.raises(StorageError, match=f"{problem}.*publish what there is now"):
        publish_trail(trail, tmp_path / "to", "json")


def test_files_that_were_published_may_be_removed(tmp_path: Path) -> None:
    trail = write_trail(tmp_path / "ot", FILES[:3])
    publish_trail(trail, tmp_path / "to", "json")
    write_trail(trail, FILES)
    remove_first(trail)

    assert publish_trail(trail, tmp_path / "to", "json").messages == 3


def test_a_group_needs_a_name(tmp_path: Path) -> None:
    trail = write_trail(tmp_path / "ot", FILES)
    with pytest.raises(OptionError, match="a group needs a name"):
        publish_trail(trail, "kafka://127.0.0.1:1/topic", "json", group="")
