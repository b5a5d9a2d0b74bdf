"""What FILTER takes, and its tests over many records."""
