"""The operations of a batch that cannot be applied, each with its reason."""

from __future__ import annotations

from trailgate.errors import TrailgateError


class Faults:
    """The errors of operations by their numbers in the batch; one that stops the run is raised at once."""

    def __init__(self, *, stop: bool = True) -> None:
        self.stop = stop
        self.errors: dict[int, TrailgateError] = {}

    def add(self, number: int, error: TrailgateError) -> None:
        """Note an operation's error, of several the first; raises it where that stops the run."""
        if self.stop:
            raise error
        self.errors.setdefault(number, error)
