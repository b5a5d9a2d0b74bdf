"""Where a trail is written; each kind of place publishes in steps of its own, and all others ask it alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, Self

from trailgate.model.tables import Definitions
from trailgate.storage.files.manifest import CapturedFile, Manifest
from trailgate.storage.writing.places.publication import Publication


class Place(Protocol):
    """A trail's place. Values can be pickled; staged files are in folders of the place, which ``staging`` names."""

    @property
    def prefix(self) -> str:
        """Return what headers, messages and summaries call the trail; without credentials."""

    @property
    def address(self) -> str:
        """Return by what the trail is read."""

    @property
    def appends(self) -> bool:
        """Return whether files can be added to in place."""

    def held(self) -> AbstractContextManager[None]:
        """Hold the trail for one run, where the place can; raises StorageError where another run holds it."""

    def checked(self) -> None:
        """Raise StorageError where the place cannot decide between two writers."""

    def opened(self) -> tuple[Self, Manifest | None]:
        """Return the manifest, None where there is none, and the place that publishes over this one alone.

        What an interrupted run had decided to publish is completed first.
        """

    def manifest(self) -> Manifest | None:
        """Return the manifest as it is; raises StorageError where it is not the one that the place was opened with."""

    def begun(self) -> None:
        """Make sure that files without a manifest are not taken for a trail from now on."""

    def has_files(self) -> bool:
        """Return whether there are files that are named like a trail's, or a checkpoint."""

    def definitions(self) -> Definitions | None:
        """Return the definitions beside the trail; None where there are none."""

    def captured(self, size: int) -> tuple[CapturedFile, ...]:
        """Return the list of captured files, of which the manifest states ``size`` bytes."""

    def quarantine(self) -> str:
        """Return what messages call the file of messages that the next publication quarantines."""

    def staging(self, name: str) -> Path:
        """Return a folder of staged files."""

    def begin_run(self, fingerprint: str, now: int) -> tuple[Path, int]:
        """Return an empty folder of staged files, and the time of an earlier run of this fingerprint that was interrupted, else ``now``."""

    def make(self, staging: Path) -> None:
        """Make a folder of staged files."""

    def is_made(self, staging: Path) -> bool:
        """Return whether files can be staged in a folder: it was made, and not discarded."""

    def filling(self, staging: Path) -> AbstractContextManager[Path]:
        """Give a local folder; the files that are in it at the end are staged."""

    def staged_bytes(self, staging: Path, names: Sequence[str]) -> int:
        """Return how many bytes staged files have together."""

    def carry_out(self, publication: Publication, staging: Path) -> None:
        """Make staged files part of the trail, and delete the folder; each step can be done again after a crash."""

    def discard(self, staging: Path, names: Sequence[str] = ()) -> None:
        """Delete a folder of staged files, or the named ones in it; those of a decided publication stay."""

    def forget(self, staging: Path) -> None:
        """Delete what the batches of a query staged up to the one of this folder, which is committed."""
