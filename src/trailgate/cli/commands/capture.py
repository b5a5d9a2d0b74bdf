"""``trailgate capture``: capture files of messages, or the messages of a broker, into a trail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import typer

from trailgate.cli.capture_output import print_ignored, print_notes, print_summary
from trailgate.errors import OptionError
from trailgate.jobs.capture.options import CaptureArguments
from trailgate.live.brokers.address import BrokerAddress, is_address
from trailgate.live.jobs.source import USED, broker_address
from trailgate.terminal.flags import flag_of, takes
from trailgate.terminal.output import progress_bar, quiet_pipe, report_finished
from trailgate.terminal.standard_input import buffer_input, is_standard_input_or_pipe

if TYPE_CHECKING:
    from trailgate.jobs.capture.job import Progress, Runner
    from trailgate.jobs.capture.loading import LoadedCapture
    from trailgate.live.commands.output import CaptureCompanion, LiveOutput

FROM_BROKER: Final = "Name one: --from stomp://HOST/QUEUE"
OF_FILES: Final = ("dry_run", "again", "max_bad", "master", "threads", "message_per")
# Options that have no meaning for repaired messages.
NOT_OF_REPAIRS: Final = (*OF_FILES, "on_error", "unordered_ids", "remember_ids")
OF_BROKERS: Final = ("follow", "until_empty", "metrics")
EXAMPLES: Final = (
    "trailgate capture --properties shop.properties --from messages --to dirdat/ot",
    "trailgate capture --extract jms.prm --from stomp://broker/orders --follow",
    "trailgate capture --properties shop.properties --from messages --dry-run",
)
PANELS: Final = {
    "The trail": (
        "format_release",
        "byte_order",
        "update_format",
        "no_compress_updates",
        "update_befores",
        "no_compress_deletes",
        "max_bytes",
        "seq_digits",
    ),
    "Bad, repeated and unsupported input": (
        "on_error",
        "max_bad",
        "ignore_unsupported",
        "again",
        "unordered_ids",
        "remember_ids",
    ),
    "Brokers": ("follow", "until_empty", "metrics"),
    "How it runs": ("base", "dry_run", "as_json", "master", "threads"),
}


@partial(takes, panels=PANELS)
def command(arguments: CaptureArguments) -> None:
    """Capture messages into a trail."""
    from trailgate.jobs.capture.loading import load_with_notes, override_rules
    from trailgate.storage.files.addresses import absolute

    if _given(arguments, ("publish_format",)) and arguments.publish_to is None:
        raise OptionError("--publish-format needs --publish", hint="Add --publish FOLDER|ADDRESS")
    if _given(arguments, ("apply_to", "publish_to", "metrics")):
        arguments = _checked_companions(arguments)
    loaded = load_with_notes(
        arguments.properties,
        arguments.extract,
        None,
        arguments.definitions,
        base=arguments.base,
        ignore_unsupported=arguments.ignore_unsupported,
    )
    loaded = override_rules(loaded, arguments)
    address = broker_address(arguments.source, dict(loaded.connection), arguments.base)
    if address is not None:
        from trailgate.live.jobs.metrics import USED as REPORTED

        # These properties do have an effect if messages come from a broker.
        used = USED | REPORTED
        loaded = replace(loaded, notes=tuple(note for note in loaded.notes if note[0] not in used))
    print_ignored(loaded)
    if not arguments.as_json:
        print_notes(loaded)
    # EXTTRAIL in the parameter file may name the trail
    if arguments.target is None and loaded.extract is not None:
        arguments = replace(arguments, target=loaded.extract.trail)
    if arguments.target is None:
        raise OptionError("no trail is named", hint="Give --to PREFIX")
    if arguments.base is not None:
        source = [
            one if is_standard_input_or_pipe(one) else absolute(one, arguments.base)
            for one in arguments.source
        ]
        arguments = replace(
            arguments, source=source, target=absolute(arguments.target, arguments.base)
        )
    if address is None:
        _capture(loaded, arguments)
    else:
        _receive(loaded, arguments, address)


def _checked_companions(arguments: CaptureArguments) -> CaptureArguments:
    """Check ``--apply``, ``--publish`` and ``--metrics`` before anything is read or written, and make their paths relative to ``--base``.

    Otherwise a wrong value would be found only after messages were captured and acknowledged.
    """
    from trailgate.cli.companions import resolve_companions
    from trailgate.jobs.metrics import check_metrics

    if arguments.base is not None:
        arguments = resolve_companions(arguments, arguments.base)
    trail = arguments.target or "PREFIX"  # the parameter file may name it
    if arguments.apply_to is not None:
        from trailgate.cli.companion_apply import check_apply

        check_apply(trail, arguments.apply_to)
    if arguments.publish_to is not None:
        from trailgate.cli.companion_publish import check_publish

        check_publish(trail, arguments.publish_to, arguments.publish_format)
    if arguments.metrics is not None:
        check_metrics(arguments.metrics)
    return arguments


def _capture(loaded: LoadedCapture, arguments: CaptureArguments) -> None:
    """Capture files into a trail, and print the summary. Raises Exit if too many messages are bad.

    If the trail belongs to a live capture, the messages are added to it as repaired ones.
    """
    from trailgate.jobs.capture.job import capture_loaded
    from trailgate.jobs.capture.summary import has_too_many_bad
    from trailgate.storage.live.checkpoint import has_checkpoint
    from trailgate.storage.writing.trail_location import location_of

    if name := _given(arguments, OF_BROKERS):
        raise OptionError(f"{name} applies only to brokers", hint=FROM_BROKER)
    assert arguments.target is not None
    location = location_of(arguments.target)
    if has_checkpoint(location.prefix):
        _repair(loaded, arguments, location.prefix)
        return
    if arguments.max_bad is not None and arguments.on_error == "stop" and not arguments.dry_run:
        problem = (
            "--max-bad has no effect with --on-error stop, which stops at the first bad message"
        )
        raise OptionError(problem, hint="Add --on-error quarantine")
    # A dry run lists all bad messages instead of stopping at the first.
    running = replace(arguments, on_error="quarantine") if arguments.dry_run else arguments
    show = arguments.master is None and not arguments.as_json
    with (
        buffer_input(arguments.source) as sources,
        progress_bar("capturing", show=show) as progress,
    ):
        runner = runner_of(arguments.master, progress, arguments.threads)
        summary = capture_loaded(loaded, running, sources, location, runner)
    with quiet_pipe() if arguments.dry_run else report_finished():
        if arguments.as_json:
            print(json.dumps(asdict(summary), ensure_ascii=False))
        else:
            print_summary(summary)
    if arguments.dry_run:
        from trailgate.cli.companions import print_planned

        print_planned(arguments)
    else:
        _use_captured(arguments, location.prefix)
    if has_too_many_bad(summary, arguments.max_bad, stop=arguments.on_error == "stop"):
        raise typer.Exit(1)


def _repair(loaded: LoadedCapture, arguments: CaptureArguments, prefix: str) -> None:
    """Add repaired messages to the trail of a live capture."""
    from trailgate.live.commands.output import print_repaired
    from trailgate.live.jobs.repaired import capture_repaired
    from trailgate.storage.live.live_trail import AppendOptions

    name = _given(arguments, NOT_OF_REPAIRS)
    if name is not None:
        shown = f"{name} quarantine" if name == "--on-error" else name
        problem = f"{shown} cannot be used with the trail of a live capture"
        raise OptionError(problem, hint="Repaired messages are added to it, all or none")
    appending = AppendOptions(**loaded.writing(arguments))
    with buffer_input(arguments.source) as sources:
        repaired = capture_repaired(loaded.capture, sources, prefix, appending)
    print_repaired(repaired, as_json=arguments.as_json)
    _use_captured(arguments, prefix)


def _use_captured(arguments: CaptureArguments, prefix: str) -> None:
    """Apply and publish the operations that were captured into a trail, if the user asked for it."""
    if arguments.apply_to is not None:
        from trailgate.cli.companion_apply import apply_captured

        apply_captured(prefix, arguments.apply_to, as_json=arguments.as_json)
    if arguments.publish_to is not None:
        from trailgate.cli.companion_publish import publish_captured

        publish_captured(
            prefix, arguments.publish_to, arguments.publish_format, as_json=arguments.as_json
        )


def _receive(loaded: LoadedCapture, arguments: CaptureArguments, address: BrokerAddress) -> None:
    """Capture the messages of a broker into a trail.

    With ``--follow`` until the capture is stopped, otherwise until no message is left. Raises Exit
    if most messages are bad.
    """
    from trailgate.live.commands.output import LiveOutput, print_live
    from trailgate.live.files.journal_writer import JournalOptions
    from trailgate.live.jobs.metrics import read_reports
    from trailgate.live.jobs.run import ReceiveOptions, open_live
    from trailgate.messages.message_ids import REMEMBERED
    from trailgate.storage.live.live_trail import AppendOptions
    from trailgate.storage.writing.trail_location import writable_prefix

    if arguments.follow and arguments.until_empty:
        raise OptionError("--follow and --until-empty exclude each other")
    if name := _given(arguments, OF_FILES):
        raise OptionError(f"{name} applies only to files, but the messages come from a broker")
    assert arguments.target is not None
    if arguments.publish_to is not None and not is_address(arguments.publish_to):
        raise OptionError(
            "a capture from a broker publishes to brokers, not to folders",
            hint=f"Capture without --publish, then run trailgate publish {arguments.target} --to {arguments.publish_to}",
        )
    options = ReceiveOptions(
        arguments.on_error,
        until_empty=not arguments.follow,
        append=AppendOptions(**loaded.writing(arguments)),
        journal=JournalOptions(remembered=arguments.remember_ids or REMEMBERED),
        unordered_ids=arguments.unordered_ids,
    )
    output = LiveOutput(
        str(address),
        writable_prefix(arguments.target),
        read_reports(dict(loaded.connection)),
        arguments.metrics,
        arguments.as_json,
        view=arguments.follow,
    )
    opened = open_live(loaded.capture, address, output.trail, options)
    with opened as live, _work_beside(arguments, output) as beside:
        total = print_live(live, output, beside)
    # A capture that follows runs until it is stopped, so its exit code does not report bad messages.
    if options.until_empty and total.mostly_bad:
        raise typer.Exit(1)


@contextmanager
def _work_beside(
    arguments: CaptureArguments, output: LiveOutput
) -> Iterator[list[CaptureCompanion]]:
    """Yield the work to do beside a live capture: applying and publishing, if the user asked for it."""
    with ExitStack() as stack:
        beside: list[CaptureCompanion] = []
        if arguments.apply_to is not None:
            from trailgate.cli.companion_apply import apply_beside

            beside.append(
                stack.enter_context(apply_beside(output.trail, arguments.apply_to, output))
            )
        if arguments.publish_to is not None:
            from trailgate.cli.companion_publish import publish_beside

            publishing = publish_beside(
                output.trail, arguments.publish_to, arguments.publish_format, output
            )
            beside.append(stack.enter_context(publishing))
        yield beside


def _given(arguments: CaptureArguments, names: tuple[str, ...]) -> str | None:
    """Return the flag of the first of these options that is set, or None."""
    # An option counts as set if its value differs from the default.
    plain = CaptureArguments()
    changed = (name for name in names if getattr(arguments, name) != getattr(plain, name))
    return next((flag_of(name) for name in changed), None)


def runner_of(master: Any, progress: Progress | None = None, threads: int | None = None) -> Runner:
    """Return the function that runs a capture job: in this process, or on Spark if there is a master."""
    from trailgate.jobs.capture.job import run_local

    if master is None:
        return partial(run_local, progress=progress, threads=threads)
    if threads is not None:
        raise OptionError(
            "--threads applies only to a run in this process",
            hint="For Spark, use a master such as local[2]",
        )
    from trailgate.spark import capture_runner

    return capture_runner(master)
