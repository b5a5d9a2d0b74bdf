"""The commands ``trailgate records`` and ``trailgate copybook``."""
