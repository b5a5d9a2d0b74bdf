"""Changes to trail bytes."""
