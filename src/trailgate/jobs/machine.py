"""The values of @GETENV that come from this machine and process."""

from __future__ import annotations

import getpass
import os
from collections.abc import Collection
from dataclasses import replace

from trailgate.expressions.environment_items import OS_VARIABLE
from trailgate.expressions.values import GetenvValues


def add_machine_items(around: GetenvValues, items: Collection[tuple[str, str]]) -> GetenvValues:
    """Add the values of this machine's @GETENV items that expressions use to an environment.

    ``items`` are pairs of group and item. Items that no expression uses stay empty, so that a run
    on another machine is the same run.
    """
    known = dict(around.variables)
    names = sorted(item for group, item in items if group == OS_VARIABLE and item not in known)
    variables = ((name, os.environ[name]) for name in names if name in os.environ)
    around = replace(around, variables=(*around.variables, *variables))
    if ("GGENVIRONMENT", "HOSTNAME") in items:
        around = replace(around, host=os.uname().nodename)
    if ("GGENVIRONMENT", "OSUSERNAME") in items:
        around = replace(around, user=getpass.getuser())
    return around
