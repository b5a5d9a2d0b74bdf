"""Values of fields: one codec a usage, both directions, whole columns."""
