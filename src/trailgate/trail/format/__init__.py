"""The trail format: tokens, frames, headers, record types, and many records in one columnar view."""
