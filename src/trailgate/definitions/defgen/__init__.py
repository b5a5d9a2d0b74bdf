"""Source definitions files as Defgen writes them, both directions."""
