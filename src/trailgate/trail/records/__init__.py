"""The records of a trail: one by one, and many in one columnar view."""
