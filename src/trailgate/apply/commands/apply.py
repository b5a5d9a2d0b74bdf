"""``trailgate apply``: apply the operations of a trail to tables.

The command is one of several ways to run: apply once (the default), ``--follow``, ``--status``,
``--verify``, or ``--from`` with the repaired operations of a discard file.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trailgate.apply.jobs.options import OPTIONS, ApplyOptions
from trailgate.errors import OptionError, count_noun, mask_logins
from trailgate.options import COUNT, TEXT, Flag
from trailgate.terminal.flags import AsJson, DefinitionsFile, Threads, takes
from trailgate.terminal.layout import print_rows
from trailgate.terminal.output import NOT_ALL, progress_bar, report_finished, say

if TYPE_CHECKING:
    from trailgate.apply.jobs.apply import ApplyRun
    from trailgate.apply.jobs.reports import ApplyReport
    from trailgate.apply.jobs.verify import VerifyReport
    from trailgate.jobs.retries import Retries

EXIT_CODES: Final = (
    "0 everything is applied, or --verify found no difference",
    "1 something is wrong, or --verify found differences",
    "2 wrong usage",
    "3 a file cannot be written, or the target's disk is full",
    "4 applied, but some operations were discarded or ignored, or the trail lacks some",
    "5 the target cannot be reached, is locked or conflicts with another writer",
)
# By the way to run, the options that have no effect on it.
UNUSED: Final = MappingProxyType(
    {"status": ("threads",), "verify": ("patience",), "from": ("patience", "threads")}
)
EXAMPLES: Final = (
    "trailgate apply dirdat/ot --to delta:lake/",
    "trailgate apply dirdat/ot --params dirprm/rshop.prm --to duckdb:shop.duckdb",
    "trailgate apply dirdat/ot --to postgresql://etl@db/shop --follow",
)
PANELS: Final = {
    "What the tables hold": ("mode", "meta", "column", "sizes", "no_create", "schema_changes"),
    "Replicat files": ("changed_maps", "ignore_unsupported"),
    "Rows that exist, or do not": ("on_collision", "after_csn", "after", "overlay_until"),
    "Operations that cannot be applied": ("on_error", "discards", "repaired", "force"),
    "Looking without applying": ("dry_run", "status", "verify"),
    "How it runs": (
        "follow",
        "batch_seconds",
        "batch_bytes",
        "patience",
        "metrics",
        "threads",
        "as_json",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyArguments(ApplyOptions):
    """The arguments of ``trailgate apply``: the options of apply, and the flags of the command itself."""

    target: Annotated[
        str,
        Flag("ADDRESS", "--to"),
        "The tables: delta:lake/, iceberg:lake/, duckdb:shop.duckdb or postgresql://USER@HOST/DATABASE.",
    ]
    follow: Annotated[bool, "Keep applying as the trail grows, until stopped."] = False
    batch_seconds: Annotated[
        int | None,
        COUNT,
        Flag("N", least=1),
        "With --follow: how often to look for new operations, in seconds; default 1.",
    ] = None
    patience: Annotated[
        int | None,
        COUNT,
        Flag("SECONDS", least=0),
        "How long to try again if the target cannot be reached, is locked or conflicts with another writer; default 30, with --follow without end.",
    ] = None
    metrics: Annotated[
        str | None,
        TEXT,
        Flag("PORT|FILE"),
        "With --follow: metrics for Prometheus, a port to serve them at, or a .prom file.",
    ] = None
    status: Annotated[
        bool,
        "Show how far each table is applied, and with TRAIL how much of it is left, without applying anything.",
    ] = False
    repaired: Annotated[
        str | None,
        Flag("FILE", "--from"),
        "Apply the repaired operations of a discard file instead of the trail.",
    ] = None
    force: Annotated[bool, "With --from: apply them even if their rows may have changed since."] = (
        False
    )
    verify: Annotated[
        bool,
        "Compare the tables with the trail, without applying anything; exit code 1 if they differ.",
    ] = False
    definitions: DefinitionsFile = None
    threads: Threads = None
    as_json: AsJson = False

    @property
    def options(self) -> ApplyOptions:
        """The options for ``apply_trail``, without flags such as --json that only the command line has."""
        # This class inherits the fields of ApplyOptions. Copy only these.
        named = {one.name: getattr(self, one.name) for one in fields(ApplyOptions)}
        return ApplyOptions(**OPTIONS.read(named))


TrailToApply = Annotated[
    str | None,
    typer.Argument(
        metavar="TRAIL",
        help="The trail: its prefix (dirdat/ot), file or folder. Only --status does without it.",
        show_default=False,
    ),
]


@partial(takes, panels=PANELS)
def command(arguments: ApplyArguments, trail: TrailToApply = None) -> None:
    """Apply the operations of a trail to tables."""
    _check_ways(arguments)
    if arguments.status:
        from trailgate.apply.commands.status import show_status

        show_status(
            arguments.target,
            arguments.options,
            trail,
            arguments.definitions,
            arguments.patience,
            as_json=arguments.as_json,
        )
        return
    if trail is None:
        raise OptionError("no trail is named", hint="Name its prefix, such as dirdat/ot")
    if arguments.repaired is not None:
        _repair(arguments, trail, arguments.repaired)
    elif arguments.verify:
        _verify(arguments, trail)
    elif arguments.follow:
        _follow(arguments, trail)
    else:
        apply(arguments, trail)


def _check_ways(arguments: ApplyArguments) -> None:
    """Raise OptionError if two ways to run are combined, or an option is given that has no effect on the chosen one."""
    # The ways to run exclude each other.
    ways = {name: getattr(arguments, name) for name in ("follow", "dry_run", "status", "verify")}
    ways["from"] = arguments.repaired is not None
    chosen = [f"--{name.replace('_', '-')}" for name, is_given in ways.items() if is_given]
    if len(chosen) > 1:
        raise OptionError(f"{' and '.join(chosen)} exclude each other")
    if arguments.batch_seconds is not None and not arguments.follow:
        raise OptionError("--batch-seconds needs --follow", hint="Add --follow")
    if arguments.metrics is not None and not arguments.follow:
        raise OptionError("--metrics needs --follow", hint="Add --follow")
    if arguments.force and arguments.repaired is None:
        raise OptionError("--force needs --from", hint="Name the discard file: --from FILE")
    for way, names in UNUSED.items():
        for name in names if ways[way] else ():
            if getattr(arguments, name) is not None:
                raise OptionError(f"--{name} has no effect with --{way}", hint="Omit it")


def apply(arguments: ApplyArguments, trail: str) -> None:
    """Run ``trailgate apply`` once: apply a trail, and print the result. Raises Exit if some operations were not applied."""
    from trailgate.apply.commands.follow import build_target_retries
    from trailgate.apply.commands.output import print_report
    from trailgate.apply.jobs.reports import (
        ApplyReport,
        report_to_json,
    )
    from trailgate.jobs.retries import LOG
    from trailgate.terminal.output import log_to_stderr

    log_to_stderr(LOG)
    done = ApplyReport()
    with _open_run(arguments, trail, build_target_retries(arguments.patience)) as run:
        with progress_bar("applying", unit="operations", show=not arguments.as_json) as progress:
            for report in run.batches():
                done += report
                if progress is not None:
                    progress(done.operations)
        done += ApplyReport(notices=run.notices)
    # From here on the tables are changed: a closed pipe must not turn that into a failure.
    with report_finished():
        if arguments.as_json:
            print(json.dumps(report_to_json(done, run.retries.faults), ensure_ascii=False))
        else:
            target = mask_logins(arguments.target)
            print_report(done, run.mapped.options, run.retries.faults, target)
    _exit(done, lacks_operations=run.lacks_operations)


def _follow(arguments: ApplyArguments, trail: str) -> None:
    """Carry out the option ``--follow`` of ``trailgate apply``, with a `FollowLoop`. Raises Exit if some operations were not applied."""
    from trailgate.apply.commands.follow import FollowLoop
    from trailgate.apply.commands.output import print_followed
    from trailgate.apply.jobs.metrics import apply_metric_labels
    from trailgate.apply.jobs.resolved_options import resolve_apply_options

    following = FollowLoop(
        as_json=arguments.as_json, metrics=arguments.metrics, seconds=arguments.batch_seconds
    )
    labels = apply_metric_labels(
        trail, arguments.target, resolve_apply_options(arguments.options).options.group
    )
    opened = partial(_open_run, arguments, trail)
    statistics, lacks_operations = following.run(opened, labels, arguments.patience)
    print_followed(statistics, mask_logins(arguments.target), as_json=arguments.as_json)
    _exit(statistics.done, lacks_operations=lacks_operations)


def _open_run(arguments: ApplyArguments, trail: str, retries: Retries) -> ApplyRun:
    """Open a run of ``trailgate apply``, and print parameters of the parameter file that have no effect."""
    from trailgate.apply.jobs.apply import ApplyRun, ThreadReading

    run = ApplyRun(
        trail,
        arguments.target,
        arguments.options,
        definitions=arguments.definitions,
        reading=ThreadReading(arguments.threads),
        retries=retries,
    )
    for one in run.mapped.unused:
        say(f"line {one.line}: {one.text} changes nothing: {one.reason}")
    for one in run.mapped.ignored:
        say(f"line {one.line}: {one.text} is not supported: {one.reason}")
    return run


def _exit(report: ApplyReport, *, lacks_operations: bool) -> None:
    """Raise Exit after ``trailgate apply`` if operations could not be applied, or are missing in the trail."""
    from trailgate.apply.jobs.reports import count_discarded

    if count_discarded(report) or lacks_operations:
        raise typer.Exit(NOT_ALL)


def _repair(arguments: ApplyArguments, trail: str, file: str) -> None:
    """Run ``trailgate apply --from``: apply repaired operations, and print the result. Raises Exit if some could not be applied."""
    from trailgate.apply.commands.output import print_notices, print_tables
    from trailgate.apply.jobs.repaired import apply_repaired
    from trailgate.apply.jobs.reports import report_to_json

    options = arguments.options
    done = apply_repaired(
        trail,
        arguments.target,
        file,
        force=arguments.force,
        definitions=arguments.definitions,
        **asdict(options),
    )
    with report_finished():
        if arguments.as_json:
            print(json.dumps(report_to_json(done, {}), ensure_ascii=False))
        else:
            print_tables(done)
            print_notices(done.notices)
            target = mask_logins(arguments.target)
            say(f"{count_noun(done.operations, 'operation')} of {file} applied: {target}")
    _exit(done, lacks_operations=False)


def _verify(arguments: ApplyArguments, trail: str) -> None:
    """Run ``trailgate apply --verify``: compare the tables with the trail, and print the result. Exits with 1 if rows differ."""
    from trailgate.apply.jobs.verify import verify_tables

    options = asdict(arguments.options)
    with progress_bar("comparing", unit="operations", show=not arguments.as_json) as progress:
        done = 0

        def count(report: ApplyReport) -> None:
            nonlocal done
            done += report.operations
            if progress is not None:
                progress(done)

        comparison = verify_tables(
            trail,
            arguments.target,
            definitions=arguments.definitions,
            threads=arguments.threads,
            progress=count,
            **options,
        )
    with report_finished():
        if arguments.as_json:
            print(json.dumps(_report_values(comparison), ensure_ascii=False, default=str))
        else:
            _print_comparison(comparison, mask_logins(arguments.target))
    if not comparison.is_equal:
        raise typer.Exit(1)


def _report_values(report: VerifyReport) -> dict[str, Any]:
    return {
        "equal": report.is_equal,
        "position": report.position.position,
        "notices": list(report.notices),
        "tables": {name: asdict(one) for name, one in report.tables.items()},
    }


def _print_comparison(report: VerifyReport, target: str) -> None:
    from trailgate.apply.commands.output import print_notices
    from trailgate.model.positions import short_position

    rows = report.tables.items()
    loaded = any(one.untouched for _, one in rows)
    # Most comparisons have no untouched rows, so their column appears only if there are some.
    row_kinds = ("equal", *(["untouched"] if loaded else []), "missing", "extra", "different")
    print_rows(
        ("table", *row_kinds),
        [(name, *(getattr(one, kind) for kind in row_kinds)) for name, one in rows],
    )
    for name, one in rows:
        if one.left_out:
            columns = ", ".join(one.left_out)
            say(f"{name}: columns with the time of applying are not compared: {columns}")
        for row in one.rows:
            key = ", ".join(f"{column}={value!r}" for column, value in row.key.items())
            print(f"{name} {key} is {row.kind}: operations {', '.join(row.positions) or 'none'}")
            if row.kind == "different":
                for column, (expected, actual) in row.columns.items():
                    print(f"  {column}: {expected!r} in the trail, {actual!r} in the table")
    print_notices(report.notices)
    at = short_position(report.position.position)
    verdict = "match the trail" if report.is_equal else "differ from the trail"
    say(f"{target} up to position {at}: the rows {verdict}")
