"""Apply the operations of a trail to tables."""
