"""Read trails and message files, in splits and ranges that can be read in parallel."""
