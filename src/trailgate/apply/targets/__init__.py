"""Where changes land: one module a kind of target, which knows its tables, its types and its commits, and nothing of trails."""
