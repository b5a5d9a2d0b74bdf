"""Write trail files: stage them, and publish them."""
