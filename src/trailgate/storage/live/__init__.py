"""Write a live trail in place while others read it: its growing file, its checkpoint, and recovery."""
