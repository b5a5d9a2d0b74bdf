"""Bytes to Arrow and back, knowing no format: gather, join, numbers, times and maps."""
