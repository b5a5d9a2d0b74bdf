"""The adapter's properties and parameter files, from bytes to typed options."""
