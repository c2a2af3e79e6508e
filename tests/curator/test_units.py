"""The units for systemd and the examples of containers: what they must not lose."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.command_tree import COMMANDS

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MOST_EXPOSURE = 2.0
"""On the scale of systemd-analyze, from 0 (safe) to 10; below 2 it says OK or SAFE."""


def read_settings(unit: Path) -> dict[str, list[str]]:
    settings: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            settings.setdefault(name, []).append(value)
    return settings


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_is_hardened(unit):
    settings = read_settings(unit)
    for name, value in {
        "ProtectSystem": "strict",
        "ProtectHome": "yes",
        "NoNewPrivileges": "yes",
        "PrivateTmp": "yes",
        "ProtectProc": "invisible",
        "UMask": "0077",
        "LimitCORE": "0",
    }.items():
        assert settings[name] == [value], name
    assert settings["User"] == [unit.stem]


def test_the_two_units_have_two_users_and_the_curator_no_network():
    curator, gateway = map(read_settings, UNITS)
    assert curator["User"] != gateway["User"]
    assert curator["PrivateNetwork"] == ["yes"]
    assert curator["RestrictAddressFamilies"] == ["AF_UNIX"]
    assert "--gateway-user dither-gateway" in curator["ExecStart"][0]
    assert curator["StateDirectoryMode"] == ["0700"]
    assert gateway["InaccessiblePaths"] == ["-/var/lib/dither-curator"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_starts_a_command_that_exists_with_options_that_it_has(unit):
    words = shlex.split(read_settings(unit)["ExecStart"][0])
    commands = dict(COMMANDS)
    options = {text for parameter in commands[(words[1],)].params for text in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options


def test_what_was_never_built_says_so():
    for name in ("Dockerfile", "compose.yaml"):
        assert "Not built here" in (DEPLOY / name).read_text().splitlines()[0]
    page = (DEPLOY.parent / "docs" / "how-to" / "deploy.md").read_text()
    assert "*not built here*" in page


@pytest.mark.all
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_reads_a_unit_and_finds_it_little_exposed(unit, tmp_path):
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/opt/dither/bin/dither", "/bin/true"))
    checked = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    command = ["systemd-analyze", "security", "--offline=yes", "--no-pager", copy]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (exposure,) = re.findall(r"Overall exposure level for \S+: ([0-9.]+)", report)
    assert float(exposure) <= MOST_EXPOSURE
