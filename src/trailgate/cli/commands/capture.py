"""``trailgate capture``: message files, or a broker's messages, into a trail."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any, Final

import typer

from trailgate.brokers.address import BrokerAddress
from trailgate.cli.capture_output import is_bad, print_ignored, print_notes, print_summary
from trailgate.cli.options import flag_of, takes
from trailgate.cli.output import done_already, progress_bar, quiet_pipe
from trailgate.cli.standard_input import is_stream, kept_input
from trailgate.errors import OptionError
from trailgate.jobs.capture.options import CaptureArguments
from trailgate.jobs.receive.source import USED, broker_address
from trailgate.storage.live.journal_options import REMEMBERED

if TYPE_CHECKING:
    from trailgate.jobs.capture.job import CaptureJob, CaptureOptions, CaptureSummary
    from trailgate.jobs.capture.loading import Loaded
    from trailgate.storage.writing.segments import WriteOptions
    from trailgate.storage.writing.trail_location import TrailLocation

FROM_BROKER: Final = "Name one: --from stomp://HOST/QUEUE"
OF_FILES: Final = ("dry_run", "again", "max_bad", "master", "threads", "message_per")
OF_BROKERS: Final = ("follow", "until_empty", "metrics")


@takes(CaptureArguments)
def command(given: CaptureArguments) -> None:
    """Capture messages into a trail."""
    from trailgate.jobs.capture.loading import load
    from trailgate.storage.files.addresses import absolute
    from trailgate.storage.writing.segments import WriteOptions

    loaded = load(
        given.properties,
        given.extract,
        None,
        given.definitions,
        base=given.base,
        ignore_unsupported=given.ignore_unsupported,
    )
    loaded = with_rules(loaded, given)
    address = broker_address(given.source, dict(loaded.connection))
    if address is not None:
        from trailgate.jobs.receive.metrics import USED as REPORTED

        used = USED | REPORTED
        loaded = replace(loaded, notes=tuple(note for note in loaded.notes if note[0] not in used))
    print_ignored(loaded)
    if not given.as_json:
        print_notes(loaded)
    if given.target is None and loaded.extract is not None:
        given = replace(given, target=loaded.extract.trail)
    if given.target is None:
        raise OptionError("no trail is named", hint="Give --to PREFIX")
    if given.base is not None:
        source = [one if is_stream(one) else absolute(one, given.base) for one in given.source]
        given = replace(given, source=source, target=absolute(given.target, given.base))
    writing = WriteOptions(
        max_bytes=loaded.max_bytes(given.max_bytes),
        seq_digits=given.seq_digits,
        trail_format=loaded.trail_format(
            given.format_release, given.byte_order, given.update_format
        ),
    )
    if address is None:
        _capture(loaded, given, writing)
    else:
        _receive(loaded, given, address, writing)


def _capture(loaded: Loaded, given: CaptureArguments, writing: WriteOptions) -> None:
    """Capture files into a trail, or, repaired messages, into that of a live capture."""
    from trailgate.jobs.capture.job import CaptureOptions
    from trailgate.storage.files.manifest import is_live
    from trailgate.storage.writing.target import location_of

    if name := _given(given, OF_BROKERS):
        raise OptionError(f"{name} is about brokers", hint=FROM_BROKER)
    options = CaptureOptions(
        on_error=given.on_error,
        max_bad=given.max_bad,
        dry_run=given.dry_run,
        again=given.again,
        unordered_ids=given.unordered_ids,
        remembered_ids=given.remember_ids or REMEMBERED,
        message_per_line=given.message_per == "line",
        **_values(writing),
    )
    assert given.target is not None
    location = location_of(given.target)
    if not is_live(location.prefix):
        _capture_files(loaded, given, location, options)
        return
    from trailgate.cli.live import print_repaired
    from trailgate.jobs.receive.run import capture_repaired
    from trailgate.storage.live.live_trail import AppendOptions

    name = _given(given, ("dry_run", "again", "master", "on_error"))
    if name is not None:
        shown = f"{name} quarantine" if name == "--on-error" else name
        problem = f"{shown} does not go with the trail of a live capture"
        raise OptionError(problem, hint="Repaired messages are added to it, all or none")
    appending = AppendOptions(**_values(writing))
    repaired = capture_repaired(loaded.capture, given.source, location.prefix, appending)
    print_repaired(repaired, as_json=given.as_json)


def _capture_files(
    loaded: Loaded, given: CaptureArguments, location: TrailLocation, options: CaptureOptions
) -> None:
    """Capture files and print the summary; raises Exit where most messages are bad."""
    from trailgate.jobs.capture.job import prepare

    stop = options.on_error == "stop"
    if options.dry_run:
        options = replace(options, on_error="quarantine")
    held = nullcontext() if options.dry_run else location.backend.held()
    with kept_input(given.source) as kept, held:
        job = prepare(loaded.capture, kept, location, options)
        summary = run(job, given.master, show=not given.as_json, threads=given.threads)
    with quiet_pipe() if options.dry_run else done_already():
        if given.as_json:
            print(json.dumps(asdict(summary), ensure_ascii=False))
        else:
            print_summary(summary)
    if is_bad(summary, options.max_bad, stop=stop):
        raise typer.Exit(1)


def _receive(
    loaded: Loaded, given: CaptureArguments, address: BrokerAddress, writing: WriteOptions
) -> None:
    """Receive from a broker until there is a reason to stop; raises Exit where most messages are bad."""
    from trailgate.cli.live import LiveOutput, print_live
    from trailgate.jobs.receive.metrics import read_reports
    from trailgate.jobs.receive.run import ReceiveOptions, open_live
    from trailgate.storage.live.journal import JournalOptions
    from trailgate.storage.live.live_trail import AppendOptions
    from trailgate.storage.writing.target import writable_prefix

    if given.follow and given.until_empty:
        raise OptionError("--follow and --until-empty exclude each other")
    if name := _given(given, OF_FILES):
        raise OptionError(f"{name} is about files, and messages come from a broker")
    options = ReceiveOptions(
        given.on_error,
        until_empty=not given.follow,
        append=AppendOptions(**_values(writing)),
        journal=JournalOptions(remembered=given.remember_ids or REMEMBERED),
        unordered_ids=given.unordered_ids,
    )
    assert given.target is not None
    output = LiveOutput(
        str(address),
        writable_prefix(given.target),
        read_reports(dict(loaded.connection)),
        given.metrics,
        given.as_json,
        view=given.follow,
    )
    with open_live(loaded.capture, address, output.trail, options) as live:
        total = print_live(live, output)
    if options.until_empty and total.mostly_bad:
        raise typer.Exit(1)


def _values(options: WriteOptions) -> dict[str, Any]:
    return {field.name: getattr(options, field.name) for field in fields(options)}


def _given(given: CaptureArguments, names: tuple[str, ...]) -> str | None:
    """Return the flag of the first of these options that is given, None where none is."""
    plain = CaptureArguments()
    found = (name for name in names if getattr(given, name) != getattr(plain, name))
    return next((flag_of(name) for name in found), None)


def with_rules(loaded: Loaded, given: CaptureArguments) -> Loaded:
    """Return the capture with the switches of the command line, which override the parameter file."""
    rules = loaded.capture.rules
    rules = replace(
        rules,
        compress_updates=rules.compress_updates and not given.no_compress_updates,
        update_befores=rules.update_befores or given.update_befores,
        compress_deletes=rules.compress_deletes and not given.no_compress_deletes,
    )
    return replace(loaded, capture=replace(loaded.capture, rules=rules))


def run(
    job: CaptureJob, master: Any = None, *, show: bool = True, threads: int | None = None
) -> CaptureSummary:
    """Run a job here, or on Spark if a master or a session is given."""
    from trailgate.jobs.capture.running import run_local

    if master is None:
        with progress_bar("capturing", len(job.ranges), show=show) as progress:
            return run_local(job, progress, threads)
    if threads is not None:
        raise OptionError("--threads is about a run in this process", hint="As local[2] for Spark")
    from trailgate.spark import capture_runner

    return capture_runner(master)(job)
