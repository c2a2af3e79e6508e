"""Engines: how a statement is run and exact integers leave."""
