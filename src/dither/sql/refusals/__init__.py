"""What SQL is refused, why, and what to write in its place.

One table for errors, docs and tests.
"""
