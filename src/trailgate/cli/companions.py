"""The options ``--apply``, ``--publish`` and ``--metrics`` of ``trailgate capture``: their paths, the hints of their errors, and what a dry run states about them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from trailgate.apply.targets.target import absolute_address
from trailgate.errors import TrailgateError, mask_logins
from trailgate.jobs.capture.options import CaptureArguments
from trailgate.jobs.metrics import absolute_metrics
from trailgate.live.brokers.address import is_address, with_files_from
from trailgate.storage.files.addresses import absolute
from trailgate.terminal.output import say

# An option of a command, such as --group, or of a format, such as missing=null.
OPTION: Final = re.compile(r"(?<![\w-])--[a-z]|the option \w+=")


def resolve_companions(arguments: CaptureArguments, base: str) -> CaptureArguments:
    """Make the paths in ``--to``, ``--apply``, ``--publish`` and ``--metrics`` absolute, relative to ``base``."""
    target, metrics = arguments.target, arguments.metrics
    applied, published = arguments.apply_to, arguments.publish_to
    if target is not None:
        target = absolute(target, base)
    if applied is not None:
        applied = absolute_address(applied, base)
    if published is not None:
        make_absolute = with_files_from if is_address(published) else absolute
        published = make_absolute(published, base)
    if metrics is not None:
        metrics = absolute_metrics(metrics, base)
    return replace(
        arguments, target=target, apply_to=applied, publish_to=published, metrics=metrics
    )


@contextmanager
def explain_options(command: str, trail: str, to: str) -> Iterator[None]:
    """Add to the hint of an error that names options that they are those of ``command``, apply or publish, and not of capture."""
    try:
        yield
    except TrailgateError as error:
        if OPTION.search(error.hint):
            run = f"trailgate {command} {shlex.quote(trail)} --to {shlex.quote(mask_logins(to))}"
            hint = f"That is an option of trailgate {command}: capture without --{command}, then add it to {run}"
            error.add_hint(hint)
        raise


def print_planned(arguments: CaptureArguments) -> None:
    """Print on stderr what a capture would do with the trail, after a dry run."""
    if arguments.apply_to is not None:
        say(
            f"dry run: the trail would be applied to {mask_logins(arguments.apply_to)}", stderr=True
        )
    if arguments.publish_to is not None:
        to = mask_logins(arguments.publish_to)
        say(f"dry run: the trail would be published to {to}", stderr=True)
