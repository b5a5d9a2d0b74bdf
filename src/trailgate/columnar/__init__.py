"""Convert between bytes and Arrow columns, for all file formats: strings, numbers, times, code pages, maps."""
