"""Good messages parsed, bad ones with their errors: all or nothing for a message.

Where a check finds all bad messages at once they are left out, and the rest is parsed again.
Only for an error of one place is the batch halved, until the bad message is alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from trailgate.errors import TrailgateError
from trailgate.messages.parsing.bad_messages import BadMessagesError
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.parsing.parser import MessageParser
from trailgate.messages.transactions.bounds import Problem
from trailgate.messages.transactions.raw_operations import RawOperations
from trailgate.model.isolating import isolated


@dataclass(slots=True)
class Isolated:
    """The results of messages: operations of the good ones, in order, and problems of the others."""

    parts: list[RawOperations] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def isolate_bad(parser: MessageParser, messages: MessageBatch) -> Isolated:
    """Return the operations of a batch's good messages and the problems of the bad ones."""
    found = Isolated()
    bad: dict[int, TrailgateError] = {}

    def parse(rows: range) -> None:
        numbers = np.arange(rows.start, rows.stop)
        if bad:
            numbers = numbers[~np.isin(numbers, list(bad))]
        while len(numbers):
            part = messages.slice(rows.start, rows.stop)
            if len(numbers) < len(part):
                left_out = numbers - np.arange(len(numbers))
                part = replace(messages.only(numbers), left_out=left_out)
            try:
                raw = parser.parse(part)
            except BadMessagesError as several:
                bad.update((int(numbers[at]), error) for at, error in several.errors.items())
                numbers = np.delete(numbers, list(several.errors))
            else:
                found.parts.append(replace(raw, message=numbers[raw.message]))
                return

    bad |= isolated(len(messages), parse)
    found.problems += [
        Problem(number, error, parser.ids_of(messages.only(np.array([number]))))
        for number, error in bad.items()
    ]
    return found
