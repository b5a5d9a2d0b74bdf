"""SQL over trails."""
