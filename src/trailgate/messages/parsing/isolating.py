"""Good messages parsed, bad ones with their errors: all or nothing for a message.

Where a check finds all bad messages at once they are left out, and the rest is parsed again.
Only for an error of one place is the batch halved, until the bad message is alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from trailgate.arrays import Longs
from trailgate.errors import TrailgateError
from trailgate.messages.parsing.bad_messages import BadMessagesError
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.parsing.parser import MessageParser
from trailgate.messages.transactions.bounds import Problem
from trailgate.messages.transactions.raw_operations import RawOperations


@dataclass(slots=True)
class Isolated:
    """The results of messages: operations of the good ones, in order, and problems of the others."""

    parts: list[RawOperations] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def isolate_bad(parser: MessageParser, messages: MessageBatch) -> Isolated:
    """Return the operations of a batch's good messages and the problems of the bad ones."""
    found = Isolated()
    _isolate(parser, messages, np.arange(len(messages)), found)
    return found


def _isolate(
    parser: MessageParser, messages: MessageBatch, numbers: Longs, found: Isolated
) -> None:
    """``numbers`` are those of the messages in the whole batch."""
    while len(messages):
        try:
            raw = parser.parse(messages)
        except BadMessagesError as bad:
            errors = bad.errors.items()
            found.problems += [Problem(int(numbers[at]), error) for at, error in errors]
            good = np.delete(np.arange(len(messages)), list(bad.errors))
            messages, numbers = messages.only(good), numbers[good]
        except TrailgateError as error:
            if len(messages) == 1:
                found.problems.append(Problem(int(numbers[0]), error))
                return
            half = len(messages) // 2
            _isolate(parser, messages.slice(0, half), numbers[:half], found)
            messages, numbers = messages.slice(half, len(messages)), numbers[half:]
        else:
            found.parts.append(replace(raw, message=numbers[raw.message]))
            return
