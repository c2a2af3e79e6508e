"""Lowering: a plan becomes engine SQL over registered tables. One file per operator."""
