"""Trails as HTML: the pages that ``trailgate browse`` serves, and the file that ``trailgate report`` writes."""
