"""The `dither` command."""

from dither.cli.main import main

__all__ = ["main"]
