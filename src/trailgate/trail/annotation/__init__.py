"""Every byte of a trail file with its meaning."""
