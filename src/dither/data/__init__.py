"""The data access layer: the only one that sees rows.

Deterministic; imported by the kernel and the steward alone.
"""
