"""Headers with a changed byte: each gives rows or our own error to all who read a trail's files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cli.commands import run
from flipped_trails import flipped_trails
from laws import sampled
from trailgate.errors import TrailgateError
from trailgate.jobs.checking.report import check_trail
from trailgate.jobs.salvage.job import salvage_trail
from trailgate.storage.reading.trail.trails import read_trail
