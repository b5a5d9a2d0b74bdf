"""The command ``trailgate publish``."""
