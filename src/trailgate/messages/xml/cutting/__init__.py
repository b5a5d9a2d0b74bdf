"""Messages that are too long for memory, cut into their transactions."""
