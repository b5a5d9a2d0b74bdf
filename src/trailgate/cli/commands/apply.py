"""``trailgate apply``: the operations of a trail land in tables."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trailgate.cli.capture_output import many
from trailgate.cli.layout import print_rows
from trailgate.cli.options import AsJson, DefinitionsFile, Threads, TrailPath, takes
from trailgate.cli.output import done_already, progress_bar, quiet_pipe, say
from trailgate.errors import OptionError, TrailgateError
from trailgate.jobs.apply_options import ApplyOptions
from trailgate.options import COUNT, Flag

if TYPE_CHECKING:
    from trailgate.cli.live import LiveOutput
    from trailgate.jobs.apply import ApplyRun
    from trailgate.jobs.apply_tables import ApplyReport
    from trailgate.jobs.apply_verify import VerifyReport
    from trailgate.targets.target import Position

PAUSE: Final = 1.0  # seconds between looks at a trail that does not grow
COLUMNS: Final = (
    "operations",
    "inserted",
    "updated",
    "replaced",
    "deleted",
    "ignored",
    "discarded",
)
RANKED: Final = 10  # reasons that are shown
SELDOM: Final = ("ignored", "discarded")  # shown where there are any
EXAMPLES: Final = (
    "trailgate apply dirdat/ot --to delta:lake/",
    "trailgate apply dirdat/ot --params dirprm/rshop.prm --to duckdb:shop.duckdb",
    "trailgate apply dirdat/ot --to postgresql://etl@db/shop --follow",
)
PANELS: Final = {
    "What the tables hold": ("mode", "meta", "column", "sizes", "no_create", "schema_changes"),
    "Replicat files": ("changed_maps", "ignore_unsupported"),
    "Rows that exist, or do not": ("on_collision", "after_csn", "overlay_until"),
    "Operations that cannot be applied": ("on_error", "discards", "repaired", "force"),
    "Looking without applying": ("dry_run", "status", "verify"),
    "How it runs": ("follow", "batch_seconds", "batch_bytes", "threads", "as_json"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyArguments(ApplyOptions):
    """What ``trailgate apply`` is given: the options of apply, and how the command runs."""

    target: Annotated[
        str,
        Flag("ADDRESS", "--to"),
        "The tables: delta:lake/, duckdb:shop.duckdb or postgresql://USER@HOST/DATABASE.",
    ]
    follow: Annotated[bool, "Keep applying as the trail grows, until stopped."] = False
    batch_seconds: Annotated[
        int | None,
        COUNT,
        Flag("N", least=1),
        "With --follow: how often to look for new operations, in seconds; default 1.",
    ] = None
    status: Annotated[bool, "Show the position of each table, without applying anything."] = False
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
        """Return the options of apply alone."""
        return ApplyOptions(**{one.name: getattr(self, one.name) for one in fields(ApplyOptions)})


@partial(takes, panels=PANELS)
def command(trail: TrailPath, given: ApplyArguments) -> None:
    """Apply the operations of a trail to tables."""
    ways = {name: getattr(given, name) for name in ("follow", "dry_run", "status", "verify")}
    ways["from"] = given.repaired is not None
    chosen = [f"--{name.replace('_', '-')}" for name, is_given in ways.items() if is_given]
    if len(chosen) > 1:
        raise OptionError(f"{' and '.join(chosen)} are given together")
    if given.batch_seconds is not None and not given.follow:
        raise OptionError("--batch-seconds is about --follow", hint="Add --follow")
    if given.force and given.repaired is None:
        raise OptionError("--force is about --from", hint="Name a file of discards")
    if given.repaired is not None:
        _repair(given, trail, given.repaired)
    elif given.status:
        _show_status(given, trail)
    elif given.verify:
        _verify(given, trail)
    else:
        apply(given, trail)


def apply(given: ApplyArguments, trail: str) -> None:
    """Apply a trail, and print what was done."""
    from trailgate.jobs.apply import ApplyRun, Reading
    from trailgate.jobs.apply_tables import ApplyReport

    done = ApplyReport()
    with ApplyRun(
        trail,
        given.target,
        given.options,
        definitions=given.definitions,
        reading=Reading(given.threads),
    ) as run:
        for one in run.mapped.unused:
            say(f"line {one.line}: {one.text} changes nothing: {one.reason}")
        for one in run.mapped.ignored:
            say(f"line {one.line}: {one.text} is not obeyed: {one.reason}")
        if given.follow:
            from trailgate.cli.apply_follow import follow

            show = partial(_show_batch, as_json=given.as_json)
            names, seconds = (trail, given.target), float(given.batch_seconds or PAUSE)
            follow(run, names, show, view=not given.as_json, seconds=seconds)
            return
        with progress_bar("applying", unit="operations", show=not given.as_json) as progress:
            for report in run.batches():
                done += report
                if progress is not None:
                    progress(done.operations)
        done += ApplyReport(notices=run.notices)
    with done_already():
        if given.as_json:
            print(json.dumps(_as_values(done), ensure_ascii=False))
        else:
            _print(done, given, run.mapped.options)


def _repair(given: ApplyArguments, trail: str, file: str) -> None:
    """Apply repaired operations, and print what was done."""
    from trailgate.jobs.apply_repaired import apply_repaired

    options = given.options
    done = apply_repaired(
        trail,
        given.target,
        file,
        force=given.force,
        definitions=given.definitions,
        **asdict(options),
    )
    with done_already():
        if given.as_json:
            print(json.dumps(_as_values(done), ensure_ascii=False))
            return
        _print_tables(done)
        say(f"{many(done.operations, 'operation')} of {file} applied: {given.target}")


def apply_captured(trail: str, to: str, *, as_json: bool) -> None:
    """Apply what was captured into a trail, and print what was done."""
    apply(ApplyArguments(target=to, as_json=as_json), trail)


@contextmanager
def applied_while_captured(
    trail: str, to: str, output: LiveOutput
) -> Iterator[Callable[[bool], None]]:
    """Yield what applies the operations that a live capture has published, at most every ``PAUSE`` seconds; at the end all are applied."""
    from trailgate.jobs.apply import ApplyRun
    from trailgate.jobs.apply_tables import ApplyReport
    from trailgate.storage.files.trail_files import find_begun_trail

    with ExitStack() as held:
        run: ApplyRun | None = None
        due, waits = time.monotonic(), False

        def apply_all() -> None:
            nonlocal run, due, waits
            if run is None:  # the trail is there from the first batch on
                run = held.enter_context(ApplyRun(trail, to, ApplyOptions()))
            for report in run.batches():
                if not output.is_viewed:
                    _show_batch(report, as_json=output.as_json)
            due, waits = time.monotonic() + PAUSE, False

        def published(new: bool) -> None:
            nonlocal waits
            waits |= new
            if waits and time.monotonic() >= due:
                apply_all()

        yield published
        if run is not None or find_begun_trail(trail) is not None:
            apply_all()
        if run is not None and run.notices and not output.is_viewed:
            _show_batch(ApplyReport(notices=run.notices), as_json=output.as_json)


def _show_batch(report: ApplyReport, *, as_json: bool) -> None:
    from trailgate.cli.apply_follow import lag_seconds

    with quiet_pipe():
        if as_json:
            line = {**_as_values(report), "lag_seconds": lag_seconds(report)}
            print(json.dumps(line, ensure_ascii=False), flush=True)
        else:
            _print_notices(report.notices)
            if report.batches:
                say(_sentence(report))


def _as_values(report: ApplyReport) -> dict[str, Any]:
    return {
        "operations": report.operations,
        "batches": report.batches,
        "tables": {name: asdict(one) for name, one in report.tables.items()},
        "position": None if report.position is None else report.position.position,
        "csn": None if report.position is None else report.position.csn,
        "reasons": dict(report.reasons),
        "notices": list(report.notices),
    }


def _sentence(report: ApplyReport) -> str:
    from trailgate.cli.apply_follow import lag_seconds
    from trailgate.columnar.digits import short_position

    rows = ", ".join(f"{name} {one.operations:,}" for name, one in report.tables.items())
    at = "" if report.position is None else short_position(report.position.position)
    lag = lag_seconds(report)
    old = "" if lag is None else f", {lag:.1f} s old"
    return f"{many(report.operations, 'operation')} up to {at}{old}: {rows}"


def _print(report: ApplyReport, given: ApplyArguments, options: ApplyOptions) -> None:
    from trailgate.columnar.digits import short_position

    _print_tables(report)
    _print_notices(report.notices)
    if report.position is None:
        chosen = f" of what {given.params} maps" if given.params else ""
        say(f"nothing new{chosen} for {given.target}")
        return
    discarded = sum(one.discarded for one in report.tables.values())
    if discarded:
        file = options.discards or f"{options.group}.discards.jsonl"
        where = "ignored" if options.on_error == "ignore" else file
        say(f"{many(discarded, 'operation')} could not be applied: {where}")
        ranked = sorted(report.reasons.items(), key=lambda one: (-one[1], one[0]))
        for reason, count in ranked[:RANKED]:
            say(f"  {count:,}: {reason}")
    at = short_position(report.position.position)
    verb = "would be applied" if given.dry_run else "applied"
    say(f"{many(report.operations, 'operation')} {verb} up to position {at}: {given.target}")


def _print_tables(report: ApplyReport) -> None:
    """Print what was done to each table."""
    shown = [
        name
        for name in COLUMNS
        if name not in SELDOM or any(getattr(one, name) for one in report.tables.values())
    ]
    if report.tables:
        rows = report.tables.items()
        numbers = [(name, *(getattr(one, column) for column in shown)) for name, one in rows]
        print_rows(("table", *shown), numbers)


def _show_status(given: ApplyArguments, trail: str) -> None:
    from trailgate.columnar.digits import short_position
    from trailgate.jobs.apply_parameters import mapped_options
    from trailgate.storage.files.addresses import name_of
    from trailgate.targets.target import open_target

    group = mapped_options(given.options).options.group
    target = open_target(given.target, group)
    try:
        whole, tables = target.position(None), target.positions()
    finally:
        target.close()
    notices, problem = ((), None) if whole is None else _trail_state(given, trail, whole)
    with done_already():
        if given.as_json:
            print(
                json.dumps(
                    {
                        "group": group,
                        "position": None if whole is None else asdict(whole),
                        "tables": [one._asdict() for one in tables],
                        "notices": list(notices),
                    }
                )
            )
            if problem is not None:
                raise problem
            return
        if whole is None:
            say(f"group {group} has applied nothing to {given.target}")
            return
        versions = any(one.version is not None for one in tables)
        print_rows(
            ("table", "position", *(["version"] if versions else [])),
            [
                (name, short_position(position), *([str(version)] if versions else []))
                for name, position, version in tables
            ],
        )
        csn = "" if whole.csn is None else f", CSN {whole.csn}"
        say(
            f"{name_of(whole.trail).replace('?tables=', ': ')} is applied up to position {short_position(whole.position)}{csn}"
        )
        _print_notices(notices)
        if problem is not None:
            raise problem


def _trail_state(
    given: ApplyArguments, trail: str, known: Position
) -> tuple[tuple[str, ...], TrailgateError | None]:
    """Return notices of what is at the trail's end, and the error if the trail cannot be continued at its position."""
    from trailgate.jobs.apply import position_notices
    from trailgate.storage.files.addresses import absolute
    from trailgate.storage.files.trail_files import find_trail

    applied = known.trail.partition("?")[0]
    try:
        if absolute(find_trail(trail, given.definitions).prefix) != applied:
            return (f"these are positions in {applied}, and not in {trail}",), None
        return position_notices(trail, known, given.definitions), None
    except TrailgateError as error:
        return (), error


def _print_notices(notices: Sequence[str]) -> None:
    for notice in notices:
        say(f"note: {notice}")


def _verify(given: ApplyArguments, trail: str) -> None:
    """Print how the tables compare; exits with 1 where rows differ."""
    from trailgate.jobs.apply_verify import verify_tables

    options = asdict(given.options)
    with progress_bar("comparing", unit="operations", show=not given.as_json) as progress:
        done = 0

        def count(report: ApplyReport) -> None:
            nonlocal done
            done += report.operations
            if progress is not None:
                progress(done)

        found = verify_tables(
            trail,
            given.target,
            definitions=given.definitions,
            threads=given.threads,
            progress=count,
            **options,
        )
    with done_already():
        if given.as_json:
            print(json.dumps(_compared(found), ensure_ascii=False, default=str))
        else:
            _print_comparison(found, given.target)
    if not found.is_equal:
        raise typer.Exit(1)


def _compared(found: VerifyReport) -> dict[str, Any]:
    return {
        "equal": found.is_equal,
        "position": found.position.position,
        "notices": list(found.notices),
        "tables": {name: asdict(one) for name, one in found.tables.items()},
    }


def _print_comparison(found: VerifyReport, target: str) -> None:
    from trailgate.columnar.digits import short_position

    rows = found.tables.items()
    loaded = any(one.untouched for _, one in rows)
    kinds = ("equal", *(["untouched"] if loaded else []), "missing", "surplus", "different")
    print_rows(
        ("table", *kinds), [(name, *(getattr(one, kind) for kind in kinds)) for name, one in rows]
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
    _print_notices(found.notices)
    at = short_position(found.position.position)
    verdict = "as the trail makes them" if found.is_equal else "not as the trail makes them"
    say(f"{target} up to position {at}: the rows are {verdict}")
