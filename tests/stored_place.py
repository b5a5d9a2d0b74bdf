"""A working folder whose trails are in a bucket, and a run there that is interrupted at any request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from capture_place import Place
from store_servers.bucket import SENDERS, Bucket
from trailgate.errors import StorageError
from trailgate.jobs.capture.job import plan_capture
from trailgate.jobs.capture.plan import CaptureJob, CaptureOptions
from trailgate.storage.reading.trails import read_trail
from trailgate.storage.stores import object_store as parted_upload
from trailgate.storage.stores import s3
from trailgate.trail.format.file_header import decode_header

HIDDEN = "dirdat/.ot."


class StoredPlace(Place):
    """Messages and properties on a local disk, trails below ``dirdat`` of a bucket."""

    def __init__(self, folder: Path, bucket: Bucket, *, spanning: bool = False) -> None:
        super().__init__(folder, spanning=spanning)
        self.bucket = bucket

    def url(self, target: str) -> str:
        return f"{self.bucket.url}/dirdat/{target}"

    def job(
        self, target: str, options: CaptureOptions | None = None, source: Path | None = None
    ) -> CaptureJob:
        return plan_capture(self.capture, source or self.messages, self.url(target), options)

    def names(self, target: str) -> list[str]:
        rows = [row for batch in read_trail(self.url(target)) for row in batch["after"].to_pylist()]
        return [dict(row)["NAME"] for row in rows]

    def body(self, target: str) -> bytes:
        joined = b""
        for key in self.bucket.keys(f"dirdat/{target}000"):
            data = self.bucket.get(key)
            joined += data[decode_header(data)[1] :]
        return joined

    def contents(self, target: str) -> dict[str, bytes]:
        return self.bucket.contents(f"dirdat/{target}")

    def left(self) -> list[str]:
        """Return what is staged, and parts of unfinished uploads."""
        return [*self.bucket.keys(HIDDEN), *self.bucket.uploads()]


def short_parts(patch: pytest.MonkeyPatch, part: int) -> None:
    """Have parts of some bytes, so that each object of a test is made of many."""
    patch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", 10)
    for module, name, size in (
        (s3, "MIN_PART", 10),
        (parted_upload, "COPIED", 25),
        (parted_upload, "PART", part),
        (parted_upload, "LONGER", 3),
    ):
        patch.setattr(module, name, size)


class KilledError(BaseException):
    """The process is no more: nothing that follows reaches the store."""


@contextmanager
def requests(before: Callable[[int], object]) -> Iterator[list[str]]:
    """Call ``before`` with the number of each request of a store before it is sent; give what was sent."""
    sent: list[str] = []

    def noting(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, operation: str, key: str = "", *named: Any, **arguments: Any) -> Any:
            sent.append(operation)
            before(len(sent))
            return real(self, operation, key, *named, **arguments)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for sender in SENDERS:
            patch.setattr(sender, "call", noting(sender.call))
        yield sent


def killed_after(step: int) -> AbstractContextManager[list[str]]:
    """Let the store see the first ``step`` requests alone."""

    def before(number: int) -> None:
        if number > step:
            raise KilledError

    return requests(before)


def meeting(step: int, other: Callable[[], object]) -> AbstractContextManager[list[str]]:
    """Do something else, with all its requests, before the request of a number."""
    entered: list[int] = []

    def before(number: int) -> None:
        if number == step and not entered:
            entered.append(number)
            other()

    return requests(before)


OVERTAKEN = "another run has published here since this one began"


def stops(act: Callable[[], object], problem: str = OVERTAKEN) -> bool:
    """Return whether a run stops with a problem of a store; others are raised."""
    try:
        act()
    except StorageError as error:
        if problem not in str(error):
            raise
        return True
    return False
