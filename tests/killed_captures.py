"""A capture killed at each of its steps and run again: run as a program with a folder and the number of random kills."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from capture_place import QUARANTINE, Place, row

STEPS = frozenset(
    ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.listdir")
)


class Killer:
    """Kills its process before a step that concerns a folder; audit hooks see each step."""

    def __init__(self, folder: Path, at: int) -> None:
        self.folder, self.left = str(folder), at
        sys.addaudithook(self.hook)
        real = os.fsync

        def fsync(handle: int) -> None:
            self.step()
            real(handle)

        os.fsync = fsync  # type: ignore[assignment]

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in STEPS and str(arguments[0]).startswith(self.folder):
            self.step()

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def begun(folder: Path) -> Place:
    """Return a place whose trail has one run, and messages for a second one."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    place = Place(folder)
    place.write(row(1))
    place.run("ot", QUARANTINE)
    place.write(*(row(i) for i in range(4)), "bad\n", row(5))
    return place


def state(place: Place) -> tuple[bytes, list[str], list[str]]:
    quarantine = place.folder / "ot.quarantine.jsonl"
    return place.body("ot"), place.names("ot"), quarantine.read_text().splitlines()


def killed(place: Place, prepare: Callable[[], object]) -> bool:
    """Return whether a run in a process of its own was killed."""
    child = os.fork()
    if child == 0:
        prepare()
        place.run("ot", QUARANTINE)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), status
    return status != 0


def main(folder: Path, random_kills: int) -> None:
    place = begun(folder)
    started = time.monotonic()
    place.run("ot", QUARANTINE)
    seconds = time.monotonic() - started
    expected = state(place)

    def checked(prepare: Callable[[], object]) -> bool:
        place = begun(folder)
        died = killed(place, prepare)
        place.run("ot", QUARANTINE)
        assert state(place) == expected
        place.run("ot", QUARANTINE)
        assert state(place) == expected
        assert not list(folder.glob(".ot.staging*"))
        return died

    steps = 0
    while checked(partial(Killer, folder, steps + 1)):
        steps += 1
    chance = random.Random(1)
    for _ in range(random_kills):
        after = chance.uniform(0.0001, seconds)
        checked(partial(_kill_after, after))
    sys.stdout.write(f"killed at {steps} steps\n")


def _kill_after(seconds: float) -> None:
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, seconds)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
