"""Whole transactions of a damaged trail, saved to a new one."""
