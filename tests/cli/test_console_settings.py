"""The files of a gateway that decide about its pages: read strictly, and secret."""

from __future__ import annotations

import json

import pytest

from dither.cli.served import read_console_settings
from dither.errors import ParameterError
from tests.console.test_sign_on import WRITTEN


def test_the_files_of_a_gateway_are_read_when_only_its_user_can_read_them(tmp_path):
    sign_on = tmp_path / "sign-on.json"
    sign_on.write_text(json.dumps(WRITTEN))
    register = tmp_path / "register"
    register.write_text("clinic dither-ab\n")
    for file in (sign_on, register):
        file.chmod(0o644)
        with pytest.raises(ParameterError, match="chmod 600"):
            read_console_settings(
                sign_on if file == sign_on else None, register if file == register else None
            )
        file.chmod(0o600)
    settings = read_console_settings(sign_on, register)
    assert settings.sign_on.client_id == "dither"
    assert settings.register_tokens == {"clinic": "dither-ab"}
    assert "dither-ab" not in repr(settings)


def test_without_files_there_is_no_sign_on_and_no_open_register():
    settings = read_console_settings(None, None)
    assert settings.sign_on is None and settings.register_tokens == {}
