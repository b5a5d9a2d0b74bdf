"""Fixed-width messages, described by copybooks, definitions files or properties (capture properties §5)."""
