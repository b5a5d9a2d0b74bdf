"""Trails as HTML: the pages of ``trailgate browse``, and the file that ``trailgate report`` writes."""
