"""The command apply."""
