"""The registered clinic of the kernel's tests, for the steward's acts."""

from tests.kernel.conftest import clinic, templates

__all__ = ["clinic", "templates"]
