"""The command ``publish``."""
