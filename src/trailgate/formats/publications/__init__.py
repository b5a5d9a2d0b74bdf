"""IBM's event publications (Q Replication, Classic CDC), delimited and XML: reading and writing."""
