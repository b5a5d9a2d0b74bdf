"""Extract parameter files: which operations are captured, and what of them."""
