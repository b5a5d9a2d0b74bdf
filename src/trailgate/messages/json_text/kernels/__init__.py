"""The compiled loops over JSON text."""
