"""The records of layouts: their boundaries in files, and their columns, in both directions."""
