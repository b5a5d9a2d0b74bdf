"""XML messages, read by rules that map elements to operations and columns (capture properties §7)."""
