"""``trailgate capture``: message files, or a broker's messages, into a trail."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from trailgate.brokers.address import BrokerAddress
from trailgate.cli.capture_output import is_bad, print_ignored, print_notes, print_summary
from trailgate.cli.options import SummaryAsJson, Threads
from trailgate.cli.output import done_already, progress_bar, quiet_pipe
from trailgate.cli.standard_input import is_stream, kept_input
from trailgate.errors import OptionError
from trailgate.jobs.receive.source import USED, broker_address
from trailgate.storage.live.journal_options import LEAST_REMEMBERED, REMEMBERED

if TYPE_CHECKING:
    from trailgate.cli.live import LiveOutput
    from trailgate.jobs.capture.job import CaptureJob, CaptureOptions, CaptureSummary
    from trailgate.jobs.capture.loading import Loaded
    from trailgate.jobs.receive.run import ReceiveOptions
    from trailgate.storage.writing.trail_location import TrailLocation

UNITS: Final = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
FROM_BROKER: Final = "Name one: --from stomp://HOST/QUEUE"
UNITS_2: Final = {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}


class MessagePer(StrEnum):
    """What a message is in a file that does not hold JSON lines."""

    FILE = "file"
    LINE = "line"


class OnError(StrEnum):
    """What happens to a bad message."""

    STOP = "stop"
    QUARANTINE = "quarantine"


def command(  # noqa: PLR0913, PLR0915  one argument an option; imports are statements
    *,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="PATH",
            help="A folder of messages, a file, a pattern, or - (stdin); repeatable. Or a broker: stomp://HOST/QUEUE.",
        ),
    ] = None,
    properties: Annotated[
        str | None, typer.Option(metavar="FILE", help="The capture's properties.")
    ] = None,
    extract: Annotated[
        str | None, typer.Option(metavar="FILE", help="An Extract parameter file that names them.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--to", metavar="PREFIX", help="The trail, as dirdat/ot.")
    ] = None,
    definitions: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The definitions file, instead of the one that the properties name.",
        ),
    ] = None,
    message_per: Annotated[
        MessagePer, typer.Option(help="What a message is; .jsonl files always have one a line.")
    ] = MessagePer.FILE,
    on_error: Annotated[
        OnError, typer.Option(help="Stop, or move bad messages to PREFIX.quarantine.jsonl.")
    ] = OnError.STOP,
    max_bad: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="With more bad messages publish nothing."),
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="The maximum size of a trail file; default 500MB."),
    ] = None,
    seq_digits: Annotated[
        int, typer.Option(metavar="9|6", help="Digits of a trail file's number.")
    ] = 9,
    format_release: Annotated[
        str | None,
        typer.Option(metavar="RELEASE", help="The trail's format, as 12.2; default 11.2."),
    ] = None,
    byte_order: Annotated[
        str | None, typer.Option(metavar="big|little", help="Little needs release 12.1.")
    ] = None,
    update_format: Annotated[
        str | None,
        typer.Option(metavar="FORM", help="separate, full or compact; the last two need 12.1."),
    ] = None,
    no_compress_updates: Annotated[
        bool, typer.Option("--no-compress-updates", help="As NOCOMPRESSUPDATES.")
    ] = False,
    update_befores: Annotated[
        bool, typer.Option("--update-befores", help="As GETUPDATEBEFORES.")
    ] = False,
    no_compress_deletes: Annotated[
        bool, typer.Option("--no-compress-deletes", help="As NOCOMPRESSDELETES.")
    ] = False,
    ignore_unsupported: Annotated[
        bool,
        typer.Option(
            "--ignore-unsupported",
            help="Capture without the parameters that are not obeyed, and list them.",
        ),
    ] = False,
    base: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="The folder that relative paths are from, those inside the files too.",
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Capture what was captured before once more.")
    ] = False,
    unordered_ids: Annotated[
        bool, typer.Option("--unordered-ids", help="Capture sequence ids that fall or repeat.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Receive from a broker until stopped.")
    ] = False,
    until_empty: Annotated[
        bool, typer.Option("--until-empty", help="Receive from a broker until nothing comes.")
    ] = False,
    remember_ids: Annotated[
        int | None,
        typer.Option(
            min=LEAST_REMEMBERED,
            metavar="N",
            help="Ids of messages that are known when they come again; default 200000.",
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="PORT|FILE",
            help="From a broker: give metrics to Prometheus, at a port or in a file.prom.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Parse and report, write nothing.")
    ] = False,
    as_json: SummaryAsJson = False,
    master: Annotated[
        str | None, typer.Option(metavar="MASTER", help="Run on Spark, as local[2].")
    ] = None,
    threads: Threads = None,
) -> None:
    """Capture messages into a trail."""
    from trailgate.jobs.capture.job import CaptureOptions
    from trailgate.jobs.capture.loading import load
    from trailgate.storage.files.addresses import absolute
    from trailgate.storage.files.manifest import is_live
    from trailgate.storage.writing.segments import WriteOptions
    from trailgate.storage.writing.target import location_of, writable_prefix

    loaded = load(
        properties, extract, None, definitions, base=base, ignore_unsupported=ignore_unsupported
    )
    loaded = with_rules(loaded, no_compress_updates, update_befores, no_compress_deletes)
    address = broker_address(source or (), dict(loaded.connection))
    if address is not None:
        from trailgate.jobs.receive.metrics import USED as REPORTED

        used = USED | REPORTED
        loaded = replace(loaded, notes=tuple(note for note in loaded.notes if note[0] not in used))
    print_ignored(loaded)
    if not as_json:
        print_notes(loaded)
    if target is None and loaded.extract is not None:
        target = loaded.extract.trail
    if target is None:
        raise OptionError("no trail is named", hint="Give --to PREFIX")
    if base is not None:
        source = [one if is_stream(one) else absolute(one, base) for one in source or ()]
        target = absolute(target, base)
    written = WriteOptions(
        max_bytes=loaded.max_bytes(None if max_size is None else size_of(max_size)),
        seq_digits=seq_digits,
        trail_format=loaded.trail_format(format_release, byte_order, update_format),
    )
    writing = {field.name: getattr(written, field.name) for field in fields(written)}
    if address is not None:
        from trailgate.cli.live import LiveOutput
        from trailgate.jobs.receive.metrics import read_reports
        from trailgate.jobs.receive.run import ReceiveOptions
        from trailgate.storage.live.journal import JournalOptions
        from trailgate.storage.live.live_trail import AppendOptions

        of_files = {
            "--dry-run": dry_run,
            "--again": again,
            "--max-bad": max_bad is not None,
            "--master": master,
            "--threads": threads,
            "--message-per": message_per is MessagePer.LINE,
        }
        _check_live(of_files, follow=follow, until_empty=until_empty)
        receiving = ReceiveOptions(
            str(on_error),
            until_empty=not follow,
            append=AppendOptions(**writing),
            journal=JournalOptions(remembered=remember_ids or REMEMBERED),
            unordered_ids=unordered_ids,
        )
        reports = read_reports(dict(loaded.connection))
        output = LiveOutput(
            str(address), writable_prefix(target), reports, metrics, as_json, view=follow
        )
        _receive(loaded, address, receiving, output)
        return
    _check_files({"--follow": follow, "--until-empty": until_empty, "--metrics": metrics})
    options = CaptureOptions(
        on_error=str(on_error),
        max_bad=max_bad,
        dry_run=dry_run,
        again=again,
        unordered_ids=unordered_ids,
        remembered_ids=remember_ids or REMEMBERED,
        message_per_line=message_per is MessagePer.LINE,
        **writing,
    )
    location = location_of(target)
    if is_live(location.prefix):
        from trailgate.cli.live import print_repaired
        from trailgate.jobs.receive.run import capture_repaired
        from trailgate.storage.live.live_trail import AppendOptions

        appending = AppendOptions(**writing)
        _check_repaired(options, master)
        repaired = capture_repaired(loaded.capture, source or (), location.prefix, appending)
        print_repaired(repaired, as_json=as_json)
        return
    _capture_files(loaded, source or [], location, options, Running(master, threads, as_json))


class Running(NamedTuple):
    """Where a capture of files runs, and how its summary is printed."""

    master: str | None
    threads: int | None
    as_json: bool


def _capture_files(
    loaded: Loaded,
    source: list[str],
    location: TrailLocation,
    options: CaptureOptions,
    where: Running,
) -> None:
    """Capture files and print the summary; raises Exit where most messages are bad."""
    from trailgate.jobs.capture.job import prepare

    stop = options.on_error == OnError.STOP
    if options.dry_run:
        options = replace(options, on_error=str(OnError.QUARANTINE))
    with kept_input(source) as kept, nullcontext() if options.dry_run else location.backend.held():
        job = prepare(loaded.capture, kept, location, options)
        summary = run(job, where.master, show=not where.as_json, threads=where.threads)
    with quiet_pipe() if options.dry_run else done_already():
        if where.as_json:
            print(json.dumps(asdict(summary), ensure_ascii=False))
        else:
            print_summary(summary)
    if is_bad(summary, options.max_bad, stop=stop):
        raise typer.Exit(1)


def _receive(
    loaded: Loaded, address: BrokerAddress, options: ReceiveOptions, output: LiveOutput
) -> None:
    """Receive from a broker until there is a reason to stop; raises Exit where most messages are bad."""
    from trailgate.cli.live import print_live
    from trailgate.jobs.receive.run import open_live

    with open_live(loaded.capture, address, output.trail, options) as live:
        total = print_live(live, output)
    if options.until_empty and total.mostly_bad:
        raise typer.Exit(1)


def _check_repaired(options: CaptureOptions, master: str | None) -> None:
    """Raise OptionError for options that a capture into the trail of a live capture does not have."""
    quarantines = options.on_error == OnError.QUARANTINE
    asked = {
        "--dry-run": options.dry_run,
        "--again": options.again,
        "--master": master,
        "--on-error quarantine": quarantines,
    }
    for name, value in asked.items():
        if value:
            problem = f"{name} does not go with the trail of a live capture"
            raise OptionError(problem, hint="Repaired messages are added to it, all or none")


def _check_files(of_brokers: Mapping[str, Any]) -> None:
    """Raise OptionError for options that a capture of files does not have."""
    for name, value in of_brokers.items():
        if value:
            raise OptionError(f"{name} is about brokers", hint=FROM_BROKER)


def _check_live(of_files: Mapping[str, Any], *, follow: bool, until_empty: bool) -> None:
    """Raise OptionError for options that a capture from a broker does not have."""
    if follow and until_empty:
        raise OptionError("--follow and --until-empty exclude each other")
    given = [name for name, value in of_files.items() if value]
    if given:
        raise OptionError(f"{given[0]} is about files, and messages come from a broker")


def with_rules(loaded: Loaded, full: bool, befores: bool, full_deletes: bool) -> Loaded:
    """Return the capture with the switches of the command line, which override the parameter file."""
    rules = loaded.capture.rules
    rules = replace(
        rules,
        compress_updates=rules.compress_updates and not full,
        update_befores=rules.update_befores or befores,
        compress_deletes=rules.compress_deletes and not full_deletes,
    )
    return replace(loaded, capture=replace(loaded.capture, rules=rules))


def size_of(text: str) -> int:
    """Return the bytes of a size such as 500MB or 2GiB; raises OptionError."""
    matched = re.fullmatch(r"(\d+)\s*([A-Za-z]*)", text.strip())
    unit = None if matched is None else (UNITS | UNITS_2).get(matched[2].upper())
    if matched is None or not unit or not int(matched[1]):
        raise OptionError(f"{text!r} is not a size", hint="Write a size as 500MB")
    return int(matched[1]) * unit


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
