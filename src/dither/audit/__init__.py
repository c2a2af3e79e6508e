"""Testers and attacks; unreachable from the kernel."""
