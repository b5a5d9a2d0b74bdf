"""A capture into a store whose process is killed and run again: run as a program with a folder, a bucket, and the number of kills.

Processes are forked from one that has never spoken to the store, since its client does not survive a fork. It has captured into a folder, so that they
have all that is imported and compiled.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

from capture_place import QUARANTINE, Place, row
from laws import chance
from trailgate.jobs.capture.job import plan_capture, run_local
from trailgate.storage.reading.trails import read_trail
from trailgate.storage.stores.writable_stores import writable_store

SLOWEST = 3.0  # seconds that a run may take on a busy machine


def in_a_process(act: Callable[[], object]) -> bool:
    """Return whether what is done in a process of its own was killed; it must not fail."""
    child = os.fork()
    if child == 0:
        try:
            act()
        except BaseException as error:  # noqa: BLE001  the fork must not return
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), status
    return status != 0


class Runs:
    """A trail with one run, and messages for a second one; the objects of the first one are put again for each."""

    def __init__(self, folder: Path, bucket: str) -> None:
        self.target, self.saved = f"{bucket}/dirdat/ot", folder / "saved"
        folder.mkdir()
        self.place = Place(folder)
        self.place.write(row(1))
        self.place.run("local", QUARANTINE)
        writable_store(self.target, "a test")  # imports its client
        in_a_process(self.run)
        in_a_process(self.save)
        self.place.write(*(row(i) for i in range(4)), "bad\n", row(5))

    def opened(self) -> tuple[Any, str]:
        """Return the store, and what all keys begin with, which is nothing in a bucket."""
        store, key = writable_store(self.target, "a test")
        return cast("Any", store), key.removesuffix("dirdat/ot")

    def save(self) -> None:
        store, above = self.opened()
        found = {key: store.read(key).data for key, _ in store.list_keys(above)}
        self.saved.write_bytes(pickle.dumps(found))

    def begin(self) -> None:
        store, above = self.opened()
        store.abandon(above, bool)
        store.delete(key for key, _ in store.list_keys(above))
        for key, data in pickle.loads(self.saved.read_bytes()).items():
            store.put(key, data, None)

    def run(self, after: float | None = None) -> None:
        if after is not None:
            signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            signal.setitimer(signal.ITIMER_REAL, after)
        run_local(plan_capture(self.place.capture, self.place.messages, self.target, QUARANTINE))

    def check(self) -> None:
        rows = [one for batch in read_trail(self.target) for one in batch["after"].to_pylist()]
        names = [dict(one)["NAME"] for one in rows]
        assert names == ["name 1", *(f"name {i}" for i in (0, 1, 2, 3, 5))], names
        store, above = self.opened()
        parts = [key for key, _ in store.list_keys(f"{above}dirdat/ot.quarantine")]
        assert len(parts) == 1, parts
        assert store.read(parts[0]).data.count(b"\n") == 1
        assert not [key for key, _ in store.list_keys(f"{above}dirdat/.ot.")]


def main(folder: Path, bucket: str, kills: int) -> None:
    runs = Runs(folder, bucket)
    started = time.monotonic()
    in_a_process(runs.run)
    seconds = min(SLOWEST, time.monotonic() - started)
    in_a_process(runs.check)
    drawn, killed = chance("killed captures"), 0
    for turn in range(kills):
        in_a_process(runs.begin)
        after = (turn + drawn.uniform(0.1, 1)) / kills * seconds
        killed += in_a_process(partial(runs.run, after))
        in_a_process(runs.run)
        in_a_process(runs.check)
    sys.stdout.write(f"killed {killed} of {kills} runs\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
