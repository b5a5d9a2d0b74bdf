"""Message files: found, cut into ranges, read in batches, and as a stream."""
