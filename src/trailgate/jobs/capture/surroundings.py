"""What @GETENV gives of this machine, and user tokens whose names a trail cannot have."""

from __future__ import annotations

import getpass
import os
from dataclasses import replace
from typing import Final

from trailgate.messages.extract.rules import CaptureRules
from trailgate.messages.extract.selection import environment_of
from trailgate.operations.expressions.environment import OS_VARIABLE
from trailgate.trail.format.tokens import GGS_TOKEN_ROWS
from trailgate.trail.format.user_tokens import MAX_NAME, UNREAD
from trailgate.trail.reading.tokens.marked_records import SYSTEM_KEY_TOKEN, UNDO_TOKEN
from trailgate.trail.writing.operation_tokens import UNNAMED

RESERVED: Final = frozenset(
    {UNREAD, UNDO_TOKEN, SYSTEM_KEY_TOKEN, *(row.name for row in GGS_TOKEN_ROWS)}
)


def surrounded(rules: CaptureRules) -> CaptureRules:
    """Return the rules with the parts of the environment that their expressions ask for.

    Parts that nothing asks for stay empty, so that a run on another machine is the same run.
    """
    around, asked = rules.surroundings, environment_of(rules)
    known = dict(around.variables)
    names = sorted(item for group, item in asked if group == OS_VARIABLE and item not in known)
    found = ((name, os.environ[name]) for name in names if name in os.environ)
    around = replace(around, variables=(*around.variables, *found))
    if ("GGENVIRONMENT", "HOSTNAME") in asked:
        around = replace(around, host=os.uname().nodename)
    if ("GGENVIRONMENT", "OSUSERNAME") in asked:
        around = replace(around, user=getpass.getuser())
    return replace(rules, surroundings=around)


def check_tokens(rules: CaptureRules) -> None:
    """Raise OptionError for a token whose name means something else in a trail, or is too long."""
    for rule in rules.statements:
        for token in rule.tokens:
            if token.name in RESERVED or UNNAMED.fullmatch(token.name):
                problem = f"the token {token.name} has the name of one of GoldenGate's own"
                raise rule.error(problem, "TOKENS", "Choose another name")
            if not 0 < len(token.name.encode()) <= MAX_NAME or "\0" in token.name:
                problem = (
                    f"the token's name {token.name[:40]!r} is not 1 to {MAX_NAME} bytes of text"
                )
                raise rule.error(problem, "TOKENS")
