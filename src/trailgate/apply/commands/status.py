"""Print ``trailgate apply --status``: each group's position in its trail, and how much is left."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from trailgate.apply.commands.follow import build_target_retries
from trailgate.apply.commands.output import print_notices
from trailgate.apply.jobs.apply import describe_unapplied
from trailgate.apply.jobs.metrics import ApplyLag, find_unapplied_begin
from trailgate.apply.jobs.options import GROUP, ApplyOptions
from trailgate.apply.jobs.resolved_options import resolve_apply_options
from trailgate.apply.targets.target import GroupPosition, group_positions
from trailgate.errors import TrailgateError, mask_logins
from trailgate.jobs.retries import LOG, call_with_retries
from trailgate.model.positions import short_position
from trailgate.storage.files.addresses import absolute, name_of
from trailgate.storage.files.trail_files import find_trail
from trailgate.storage.reading.trail_rest import count_bytes_after
from trailgate.terminal.durations import format_age
from trailgate.terminal.layout import print_rows
from trailgate.terminal.output import log_to_stderr, report_finished, say

TIME: Final = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """How far a group has applied its trail: its position, its lag (None if unknown), and notices.

    ``problem`` is the error if apply cannot continue from the position.
    """

    at: GroupPosition
    lag: ApplyLag | None = None
    notices: tuple[str, ...] = ()
    problem: TrailgateError | None = None

    @property
    def all_notices(self) -> tuple[str, ...]:
        """The notices of the tables and of the group."""
        return (*(one.notice for one in self.at.tables if one.notice is not None), *self.notices)

    def values(self) -> dict[str, Any]:
        """Return a group's ``--status`` as JSON values."""
        position, lag = self.at.position, self.lag
        return {
            "group": self.at.group,
            "position": None if position is None else asdict(position),
            "tables": [one._asdict() for one in self.at.tables],
            "lag_bytes": None if lag is None else lag.bytes,
            "lag_seconds": None if lag is None else lag.seconds,
            "notices": list(self.all_notices),
        }


def show_status(
    target: str,
    options: ApplyOptions,
    trail: str | None,
    definitions: str | None,
    patience: float | None,
    *,
    as_json: bool,
) -> None:
    """Print the positions of a target's tables for all groups, or only for the group named in the options.

    With a trail, also print how much of it is not applied yet. If apply cannot continue a trail at
    its position, the error is raised after everything has been printed.
    """
    log_to_stderr(LOG)
    group = resolve_apply_options(options).options.group
    positions = call_with_retries(partial(group_positions, target), build_target_retries(patience))
    if group != GROUP:
        positions = [one for one in positions if one.group == group]
    groups = [_status(one, trail, definitions) for one in positions]
    # JSON has one group at the top level (the named one, or the first), and all in a list.
    named = next((one for one in groups if one.at.group == group), None)
    first = named or (groups[0] if groups else GroupStatus(GroupPosition(group, None, [])))
    with report_finished():
        if as_json:
            print(json.dumps({**first.values(), "groups": [one.values() for one in groups]}))
        elif groups:
            for one in groups:
                _print(one, several=len(groups) > 1)
        else:
            say(f"group {group} has applied nothing to {mask_logins(target)}")
    for one in groups:
        if one.problem is not None:
            raise one.problem


def _status(at: GroupPosition, trail: str | None, definitions: str | None) -> GroupStatus:
    """Return the ``--status`` of a group, whose stored position is ``at``.

    The lag is included if ``trail`` is the trail that the group applies. If it is another trail, a
    notice states this.
    """
    position = at.position
    if trail is None or position is None:
        return GroupStatus(at)
    # the trail's name in a checkpoint may have its tables after a ?
    applied = position.trail.partition("?")[0]
    try:
        files = find_trail(trail, definitions)
        if files.prefix != applied and absolute(trail) != applied:
            notice = f"these positions are for {applied}, not for {trail}"
            return GroupStatus(at, notices=(notice,))
        notices = describe_unapplied(trail, position, definitions)
        lag = ApplyLag.of(count_bytes_after(files, find_unapplied_begin(files, position)), position)
    except TrailgateError as error:
        return GroupStatus(at, problem=error)
    return GroupStatus(at, lag, notices)


def _print(status: GroupStatus, *, several: bool) -> None:
    group, position, tables = status.at
    if several:
        say(f"group {group}")
    columns = ["table", "position"]
    rows = [[one.table, short_position(one.position)] for one in tables]
    more = {
        "csn": [one.csn for one in tables],
        "committed (UTC)": [_time(one.op_ts) for one in tables],
        "version": [None if one.version is None else str(one.version) for one in tables],
    }
    for name, values in more.items():
        if any(value is not None for value in values):
            columns.append(name)
            rows = [[*row, value or ""] for row, value in zip(rows, values, strict=True)]
    if tables:
        print_rows(tuple(columns), [tuple(row) for row in rows])
    if position is None:
        say(f"group {group} has not committed a batch yet")
        print_notices(status.all_notices)
        return
    csn = "" if position.csn is None else f", CSN {position.csn}"
    time = "" if position.op_ts is None else f", committed {_time(position.op_ts)} UTC"
    source = name_of(position.trail).replace("?tables=", ": ")
    say(
        f"{source} is applied up to position {short_position(position.position)}{csn}{time}{_lag(status.lag)}"
    )
    print_notices(status.all_notices)


def _lag(lag: ApplyLag | None) -> str:
    if lag is None:
        return ""
    if not lag.bytes:
        return "; nothing is left to apply"
    old = "" if lag.seconds is None else f", the last operation is {format_age(lag.seconds)} old"
    return f"; {lag.bytes:,} bytes are left to apply{old}"


def _time(micros: int | None) -> str | None:
    return (
        None if micros is None else datetime.fromtimestamp(micros // 1_000_000, UTC).strftime(TIME)
    )
