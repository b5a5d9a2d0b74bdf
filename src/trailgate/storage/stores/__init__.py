"""Object stores that are written to: objects are put whole, under a condition where two writers could both win."""
