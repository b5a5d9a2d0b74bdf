"""Message files into a trail by one call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Literal

from trailgate.errors import OptionError
from trailgate.jobs.capture.job import CaptureJob, prepare
from trailgate.jobs.capture.loading import PathLike, load, warn_ignored
from trailgate.jobs.capture.options import CaptureOptions, CaptureSummary
from trailgate.jobs.capture.running import run_local
from trailgate.storage.files.addresses import absolute
from trailgate.storage.files.found_files import Addresses, addresses_of
from trailgate.storage.writing.target import place_of

Runner = Callable[[CaptureJob], CaptureSummary]


def capture_files(  # noqa: PLR0913  one parameter an option
    source: Addresses,
    trail: str | Path,
    properties: PathLike | None = None,
    *,
    extract: PathLike | None = None,
    definitions: PathLike | None = None,
    message_per: Literal["file", "line"] = "file",
    on_error: Literal["stop", "quarantine"] = "stop",
    max_bad: int | None = None,
    max_bytes: int | None = None,
    seq_digits: Literal[9, 6] = 9,
    format_release: str | None = None,
    byte_order: Literal["big", "little"] | None = None,
    update_format: Literal["separate", "full", "compact"] | None = None,
    again: bool = False,
    unordered_ids: bool = False,
    dry_run: bool = False,
    ignore_unsupported: bool = False,
    base: PathLike | None = None,
    runner: Runner = run_local,
) -> CaptureSummary:
    """Capture messages into a trail: a folder, a file, a pattern, or several of them; return what was done.

    What was captured into the trail before is left out and counted, unless ``again``.

    The properties are those of a file, or of the Extract parameter file that names them; ``definitions`` replaces the
    definitions file that they name. Relative paths, those inside these files too, are from ``base``, else from the working
    folder. The other options are those of ``trailgate capture`` (docs/cli.md). ``runner`` runs
    the job: in this process, or on Spark (``trailgate.spark.capture_runner``). Messages and the files of the properties may be
    at addresses of a store, and so may the trail (docs/stores.md).

    Raises OptionError, DefinitionError, StorageError where another run holds the trail or published to it first, and the first bad message's error
    unless ``on_error`` is quarantine.
    """
    if message_per not in ("file", "line"):
        raise OptionError(f"message_per must be file or line, not {message_per!r}")
    loaded = load(
        properties, extract, None, definitions, base=base, ignore_unsupported=ignore_unsupported
    )
    warn_ignored(loaded)
    options = CaptureOptions(
        on_error=on_error,
        max_bad=max_bad,
        dry_run=dry_run,
        again=again,
        unordered_ids=unordered_ids,
        message_per_line=message_per == "line",
        max_bytes=loaded.max_bytes(max_bytes),
        seq_digits=seq_digits,
        trail_format=loaded.trail_format(format_release, byte_order, update_format),
    )
    if base is not None:
        source, trail = [absolute(one, base) for one in addresses_of(source)], absolute(trail, base)
    place = place_of(trail)
    with nullcontext() if dry_run else place.held():
        return runner(prepare(loaded.capture, source, place, options))
