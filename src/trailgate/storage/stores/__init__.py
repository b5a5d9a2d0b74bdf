"""Write to object stores: objects are always put completely, and under a condition that prevents two writers from both succeeding."""
