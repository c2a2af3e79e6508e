"""Vectors of units: encoded, clipped, truncated and added up in exact integers."""
