"""Convert column values between their trail encoding and Arrow.

Each call converts a complete column.
"""
