"""Engines: where the prepared copy lies, how a statement is run and exact integers leave.

`interface.py` says what an engine is. `choose.py` knows them all; nothing outside `data/` names
one. docs/how-to/add-an-engine.md adds one.
"""
