"""Event publications of IBM Q Replication and Classic CDC, delimited and XML."""
