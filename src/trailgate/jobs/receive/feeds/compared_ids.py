"""The ids of received messages, compared as ``jms.id`` has it; what is known of them is found again at a start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trailgate.arrays import Longs
from trailgate.jobs.receive.feeds.feed import Feed, Part
from trailgate.messages.parsing.message_ids import MessageIdRule, MessageIds


class ComparedIds:
    """Leaves out the messages of parts that came before. Without a rule nothing is compared."""

    def __init__(self, rule: MessageIdRule | None) -> None:
        self._rule = rule
        self._ids = None if rule is None else MessageIds(rule)
        self._recent: list[
            tuple[Longs, Sequence[str | None]]
        ] = []  # what ``before`` may be asked for
        self._last: str | None = None

    def begin(self, feed: Feed, number: int | None, last: str | None) -> None:
        """Look through the messages before the first one, as far as they are there; ``last`` is their highest id."""
        if self._ids is None or self._rule is None or number is None:
            return
        for messages in feed.earlier(number, self._rule.remembered):
            self._ids.screen(messages)
        self._ids.begin(last)
        self._last = last

    def screened(self, part: Part) -> tuple[Part, int]:
        """Return a part without the messages that came before, and how many these are."""
        if self._ids is None or not len(part):
            return part, 0
        found = self._ids.screen(part.messages)
        self._recent.append((part.numbers, found.last))
        messages, problems = found.applied(part.messages, part.problems)
        numbers = part.numbers if found.kept is None else part.numbers[found.kept]
        return replace(
            part, messages=messages, problems=problems, numbers=numbers
        ), found.duplicates

    def before(self, number: int) -> str | None:
        """Return the highest id before a message that was received, or the one after the last; what was before that is forgotten."""
        while self._recent:
            numbers, last = self._recent[0]
            at = int(np.searchsorted(numbers, number))
            if at:
                self._last = last[at - 1]
            if at < len(numbers):
                break
            self._recent.pop(0)
        return self._last
