"""The capture engine: parses messages of any format into operations, and knows all formats by name."""
