"""SQL over trails and the tables that they were applied to."""
