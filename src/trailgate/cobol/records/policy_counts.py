"""Count the values and records of COBOL files that a policy option changed or accepted.

A policy is an option with its value, such as ``padding=left``. Decoders add to these counts. The
commands print them, and ``read_records`` adds them to the counter that its caller gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trailgate.errors import count_noun

PolicyCounts = Counter[tuple[str, str, str]]


class PolicyTally(PolicyCounts):
    """Counts how many values or records each policy option was applied to.

    The key is the option with its value (``padding=left``), the record's name, and the item ("" for
    records).
    """

    def lines(self) -> Iterator[str]:
        """Yield a summary line per policy option, for example ``padding=left: 12 values (AMOUNT 9, QTY 3)``."""
        several = len({record for _, record, _ in self}) > 1
        policies: dict[str, list[tuple[str, int]]] = {}
        for (policy, record, item), count in sorted(self.items()):
            name = f"{record}.{item}" if several and item else item or record
            policies.setdefault(policy, []).append((name, count))
        items = {policy for policy, _, item in self if item}
        for policy, counts in policies.items():
            total = count_noun(
                sum(count for _, count in counts), "value" if policy in items else "record"
            )
            names = ", ".join(f"{name} {count:,}" for name, count in counts)
            yield f"{policy}: {total} ({names})"
