"""The clients in JavaScript and C of the wire format page, cut out of it and made to run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "local-wire-format.md"


def read_program(language: str) -> str:
    (program,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    return str(program)


def compile_c_client(folder: Path) -> Path:
    """The C client of the page, compiled with all warnings as errors."""
    source = folder / "client.c"
    source.write_text(read_program("c"))
    binary = folder / "client"
    flags = ["-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["gcc", *flags, "-o", str(binary), str(source)], check=True)
    return binary
