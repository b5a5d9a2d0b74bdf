"""XML messages by rules (capture properties §7)."""
