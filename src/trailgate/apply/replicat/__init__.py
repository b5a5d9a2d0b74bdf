"""Parse Replicat parameter files, and apply their MAP statements to tables and columns."""
