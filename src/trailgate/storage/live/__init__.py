"""Write a trail in place while others read it."""
