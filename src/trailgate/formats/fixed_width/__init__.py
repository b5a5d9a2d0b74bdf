"""Fixed-width messages (capture properties §5)."""
