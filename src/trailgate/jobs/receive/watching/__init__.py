"""What a live capture does, as it is seen from outside: totals, reports and metrics."""
