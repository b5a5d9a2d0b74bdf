"""The summary of a capture: counts of operations and messages, reasons of bad messages, and warnings.

The command line prints it, and the manifest of the trail contains that of the last run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Self

from trailgate.errors import TrailgateError, Where
from trailgate.options import check_arguments

KNOWN: Final = ("skipped", "continued", "changed", "copied")  # counts of `RecognizedFiles`
SUMMED: Final = (  # counts of RangeReport that are added up, under the same names in the summary
    "messages",
    "transactions",
    "operations",
    "quarantined",
    "skipped_operations",
    "repeated_operations",
    "late_operations",
    "duplicate_messages",
    "skipped_messages",
)
RANKED: Final = 20  # reasons listed in a summary
OTHER_REASONS: Final = "other reasons"


@dataclass(frozen=True, slots=True)
class CaptureSummary:
    """The result of a capture: operations by table and type, the published files, and warnings.

    `target` is the prefix of the trail. `definitions` is the definitions file written beside the
    trail, if the trail's own files do not contain definitions. `quarantine` is the file with the
    `quarantined` messages.

    The other fields are counts. `skipped_files` and `skipped_operations` were captured before and
    were skipped. Of `continued_files` only the appended part was captured. These were captured
    completely: `changed_files` (captured before with different content), `copied_files` (captured
    before under a different name) and `late_operations` (their sequence ids are lower than the
    highest one in the trail). `repeated_operations` and `duplicate_messages` occurred twice in the
    input and were captured once; the latter are recognized by the ids that `jms.id` selects.
    `skipped_messages` contain no operation.

    `reasons` counts the bad messages by reason, the most frequent first. `problems` lists them, in
    a dry run only.
    """

    target: str
    counts: dict[str, dict[str, int]]
    messages: int = 0
    transactions: int = 0
    operations: int = 0
    quarantined: int = 0
    files: tuple[str, ...] = ()
    quarantine: str | None = None
    dry_run: bool = False
    notes: tuple[str, ...] = ()
    definitions: str | None = None
    skipped_files: int = 0
    skipped_operations: int = 0
    continued_files: int = 0
    changed_files: int = 0
    copied_files: int = 0
    late_operations: int = 0
    repeated_operations: int = 0
    duplicate_messages: int = 0
    skipped_messages: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Mapping[str, Any], ...] = ()

    @property
    def mostly_bad(self) -> bool:
        """Whether more messages were quarantined than captured. Messages without operations are neither."""
        return 2 * self.quarantined > self.messages - self.skipped_messages

    @classmethod
    @check_arguments
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Rebuild the summary of a capture from its fields in the manifest of the trail."""
        strings = {name: tuple(fields.get(name, ())) for name in ("files", "notes", "problems")}
        return cls(**{**fields, **strings})


def rank_bad_reasons(reasons: Mapping[str, int]) -> dict[str, int]:
    """Rank the reasons of bad messages for the summary of a capture: the `RANKED` most frequent, and the sum of the others.

    `reasons` has the number of messages of each reason, the most frequent first.
    """
    pairs = list(reasons.items())
    rest = sum(count for _, count in pairs[RANKED:])
    return dict(pairs[:RANKED]) | ({OTHER_REASONS: rest} if rest else {})


def error_values(error: TrailgateError) -> dict[str, Any]:
    """Convert the error of a bad message to plain values for the summary of a capture.

    These are the problem, the hint, and the known parts of its location.
    """
    place = {field.name: getattr(error.where, field.name) for field in fields(Where)}
    # Raw bytes are not JSON: show them as text and as hex digits.
    raw = place.pop("raw")
    if raw is not None:
        text = place["text"] or raw.decode("utf-8", "backslashreplace")
        place |= {"text": text, "bytes": raw.hex()}
    known = {name: value for name, value in place.items() if value is not None}
    return {"problem": error.problem, **known, **({"hint": error.hint} if error.hint else {})}


def has_too_many_bad(summary: CaptureSummary, max_bad: int | None, *, stop: bool) -> bool:
    """Return whether the summary of a capture has too many bad messages for the exit code 0.

    This is the case if most messages are bad, or if a dry run found more bad messages than a real
    run would accept: more than ``max_bad``, or if that is None and ``stop`` is set, any.
    """
    # A real run with --on-error stop would stop at the first bad message.
    most = 0 if stop and max_bad is None else max_bad
    over = summary.dry_run and most is not None and summary.quarantined > most
    return over or summary.mostly_bad
