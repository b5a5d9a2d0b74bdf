"""What a change is: column types, tables, and changes in bulk."""
