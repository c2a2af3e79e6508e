"""Synthetic tables: measured through a budget lease, fitted by a graphical model, drawn from it."""
