"""Conditions and values of parameter files, over whole columns."""
