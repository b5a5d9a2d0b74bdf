"""Write to object stores: objects are put completely, and under a condition if two writers could both succeed."""
