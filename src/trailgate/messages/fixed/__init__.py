"""Fixed-width records: bytes to columns by a layout, and back."""
