"""The command journal, and what a live capture prints."""
