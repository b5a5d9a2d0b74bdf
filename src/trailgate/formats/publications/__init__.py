"""IBM's event publications, delimited and XML."""
