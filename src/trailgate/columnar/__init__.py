"""Convert between bytes and Arrow columns without knowing a file format: strings, numbers, times, code pages, maps."""
