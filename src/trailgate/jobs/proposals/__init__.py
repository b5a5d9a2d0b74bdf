"""Propose properties from sample messages: a starting point for a capture, with comments.

The comments state what was recognized, and what has to be filled in.
"""

from trailgate.jobs.proposals.proposal import Proposal, propose

__all__ = ["Proposal", "propose"]
