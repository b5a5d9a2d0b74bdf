"""Convert column values between their trail encoding and Arrow, a complete column at a time."""
