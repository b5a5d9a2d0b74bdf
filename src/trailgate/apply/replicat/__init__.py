"""Replicat parameter files, and how their MAP statements map tables and columns."""
