"""Every byte of a trail with its meaning."""
