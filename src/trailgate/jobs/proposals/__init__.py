"""Propose properties from sample messages, for ``trailgate init``: a starting point for a capture.

There is a module for each message format, and for messages of tools whose form is known.

The comments state what was recognized, and what has to be filled in.
"""

from trailgate.jobs.proposals.proposal import Proposal, propose

__all__ = ["Proposal", "propose"]
