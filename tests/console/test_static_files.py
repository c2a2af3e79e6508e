"""Files of others: as their packages hold them, with licence and hash on record."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from dither import console

FOLDER = Path(console.__file__).parent / "static"
VENDOR = FOLDER / "vendor"
RECORD = json.loads((VENDOR / "vendor.json").read_text())


def test_every_file_of_others_is_on_record_with_its_hash_and_licence():
    files = {file.name for file in VENDOR.iterdir() if file.suffix in (".js", ".css")}
    assert files == set(RECORD)
    for name, entry in RECORD.items():
        content = (VENDOR / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["sha256"], name
        assert (VENDOR / entry["licence_file"]).stat().st_size > 100
        assert re.fullmatch(r"\d+\.\d+\.\d+", entry["version"])


def test_our_own_script_builds_no_markup_and_runs_no_text():
    text = (FOLDER / "console.js").read_text()
    for name in ("innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "Function(", "write("):
        assert name not in text.replace("clipboard.writeText(", "")


def test_the_script_settings_keep_answers_out_of_the_browser_s_storage():
    base = (Path(console.__file__).parent / "templates" / "base.html").read_text()
    settings = json.loads(re.search(r"name=\"htmx-config\" content='([^']+)'", base)[1])
    assert settings["historyCacheSize"] == 0 and settings["allowEval"] is False
    assert settings["includeIndicatorStyles"] is False and settings["selfRequestsOnly"] is True
