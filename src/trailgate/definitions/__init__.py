"""Read every notation of table definitions into one model, and write it back."""
