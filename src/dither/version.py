"""The version of the software, and of the meaning of its losses (which never changes within a
number)."""

__version__ = "0.1.0"
LOSS_VERSION = 1
