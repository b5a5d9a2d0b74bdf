"""What rules find in messages, as users see it: which never match, and why."""
