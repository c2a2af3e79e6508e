"""What SQL is refused, why, and what to write in its place: one table for errors, docs and
tests."""
