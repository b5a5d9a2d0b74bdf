"""The commands browse and report."""
