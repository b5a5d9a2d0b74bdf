"""Trails as pages: what ``trailgate browse`` serves, and the file that ``trailgate report`` writes."""
