"""The commands ``trailgate browse`` and ``trailgate report``."""
