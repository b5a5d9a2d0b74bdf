"""Evaluate conditions and values of parameter files for complete columns."""
