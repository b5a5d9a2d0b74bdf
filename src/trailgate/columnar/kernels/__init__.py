"""Compiled loops that know no format: arrays in, places or a problem code out."""
