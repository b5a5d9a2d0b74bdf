"""Tests of removing folders that others still write into."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from trailgate.storage.files.durable import remove_temporary_folder


@contextmanager
def _file_after_file(folder: Path) -> Iterator[Thread]:
    """Make files in a folder in another thread, until that fails."""

    def make() -> None:
        for number in range(1_000_000):
            try:
                (folder / f"{number}").touch(exist_ok=False)
            except FileNotFoundError:
                return

    thread = Thread(target=make, daemon=True)
    thread.start()
    yield thread
    thread.join(timeout=240)


def test_nothing_is_left_of_a_folder_that_is_still_written_into(tmp_path: Path) -> None:
    for number in range(20):
        folder = tmp_path / f".staging-{number}"
        folder.mkdir()
        with _file_after_file(folder) as writing:
            while not any(folder.iterdir()):
                pass
            remove_temporary_folder(folder)
        assert not writing.is_alive()

    assert not any(tmp_path.iterdir())


def test_a_removal_that_was_interrupted_is_completed(tmp_path: Path) -> None:
    left = tmp_path / ".staging.removed"
    left.mkdir()
    (left / "1").touch()

    remove_temporary_folder(tmp_path / ".staging")

    assert not any(tmp_path.iterdir())
