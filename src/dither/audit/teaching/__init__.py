"""Mechanisms to learn from, not to release with: unreachable from the kernel (an import contract)."""
