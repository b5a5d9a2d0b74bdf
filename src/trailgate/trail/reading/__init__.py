"""Trail bytes to changes and to rows of records."""
