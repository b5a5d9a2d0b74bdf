"""A disk that fails at a chosen step, as a killed process leaves it, or as a power cut does."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from trailgate.storage.files.durable import WrittenFile
from trailgate.storage.live.growing_file import Disk


class KilledError(Exception):
    """The process was killed here."""


class FailingDisk(Disk):
    """Counts steps and is killed at one; a write is done by ``part`` then. Nothing is really synced.

    ``durable`` is what lasts of each file.
    """

    def __init__(self, kill_at: int | None = None, part: float = 0.0) -> None:
        self.kill_at, self.part, self.steps = kill_at, part, 0
        self.durable: dict[Path, bytes | None] = {}

    def step(self) -> bool:
        """Return whether this step is the one; nothing is done after it."""
        self.steps += 1
        if self.kill_at is not None and self.steps > self.kill_at:
            raise KilledError
        return self.steps == self.kill_at

    def open(self, path: Path) -> WrittenFile:
        if self.step() and not self.part:
            raise KilledError
        self.durable.setdefault(path, path.read_bytes() if path.exists() else None)
        return FailingFile(path, self)

    def replace(self, path: Path, data: bytes) -> None:
        if self.step() and not self.part:
            raise KilledError
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_bytes(data)
        temporary.replace(path)

    def rename(self, path: Path, final: Path) -> None:
        if self.step() and not self.part:
            raise KilledError
        path.replace(final)
        self.durable.pop(path, None)

    def remove(self, path: Path) -> None:
        if self.step() and not self.part:
            raise KilledError
        path.unlink()
        self.durable.pop(path, None)

    def cut_power(self, chance: random.Random) -> None:
        """Take back, in part and at random, what was not synced."""
        for path, old in self.durable.items():
            new = path.read_bytes()
            if old is None and chance.random() < 0.3:
                path.unlink()
            elif old is None or len(new) >= len(old):
                path.write_bytes(_mixed(old or b"", new, chance))
            elif chance.random() < 0.5:
                path.write_bytes(old)


class FailingFile(WrittenFile):
    """A file of such a disk."""

    def __init__(self, path: Path, disk: FailingDisk) -> None:
        super().__init__(path)
        self.disk = disk

    def write(self, offset: int, data: Any) -> None:
        if self.disk.step():
            super().write(offset, bytes(data)[: int(len(data) * self.disk.part)])
            raise KilledError
        super().write(offset, data)

    def truncate(self, size: int) -> None:
        if self.disk.step() and not self.disk.part:
            raise KilledError
        super().truncate(size)

    def sync(self) -> None:
        if self.disk.step():
            raise KilledError
        self.disk.durable[self.path] = self.path.read_bytes()


def _mixed(old: bytes, new: bytes, chance: random.Random) -> bytes:
    """Return old bytes or new ones where both are, and of the rest some, zeros or nothing."""
    size = chance.randint(len(old), len(new))
    begin = chance.choice([old, new[: len(old)]])
    rest = new[len(old) : size]
    return begin + rest + bytes(chance.choice([0, len(new) - size]))
