"""What the documentation says of other libraries is what was recorded, at full sizes; verdicts
follow from numbers."""

import json

from tests.scripts import import_script


def test_the_page_of_the_peers_is_the_record():
    peers = import_script("bench/audit_peers.py")
    lines = json.loads(peers.RECORD.read_text())["lines"]
    assert {each["name"].split(":")[0] for each in lines} == set(peers.PACKAGES)
    assert peers.PAGE.read_text(encoding="utf-8") == peers.page(lines)
    for each in lines:
        assert each["runs"] >= (2_000 if each["name"].startswith("smartnoise") else 40_000), (
            "recorded at quick sizes"
        )
        assert each["alpha"] == peers.ALPHA and each["version"] and each["date"]
        assert (each["verdict"] == "violated") == (
            each["shown_epsilon"] > each["claimed_epsilon"]
        ), each["name"]
