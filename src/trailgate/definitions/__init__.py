"""Every notation of table definitions, read into one model and written back."""
