"""Properties proposed from messages: a beginning that a capture takes, whose comments state what was seen and what has to be filled in."""

from trailgate.jobs.proposals.proposal import Proposal, propose

__all__ = ["Proposal", "propose"]
