"""Evaluate conditions and values of parameter files over complete columns."""
