"""IBM event publications: delimited and XML messages of Q Replication and Classic CDC."""
