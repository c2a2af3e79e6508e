"""Interpreters of losses: what a loss means in (epsilon, delta), zCDP and RDP, always as a bracket."""
