"""The tutorials work against a served dataset by changing one line: the one that connects."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

import dither
from dither.catalog.file.load import load
from dither.identity import TokenStore
from tests.datasets.served_clinic import running_gateway, start_server
from tests.test_docs import ROOT, run_page

PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in (ROOT / "docs/tutorial").glob("*.md")
    if 'dither.connect("' in page.read_text(encoding="utf-8")
)


@pytest.mark.all
@pytest.mark.parametrize("page", [*PAGES, "docs/roles/analyst.md"])
def test_a_tutorial_runs_when_its_dataset_is_served(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    connected = []
    connect = dither.connect
    with ExitStack() as stack:

        def connect_to_gateway(catalog: str) -> dither.Connection:
            """What the changed line would do: the same dataset, behind curator and gateway."""
            home = tmp_path / "home"
            path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "s"
            server = start_server(Path(catalog).resolve(), home, path)
            stack.callback(server.stop)
            tokens = TokenStore(home)
            stack.callback(tokens.close)
            dataset = load(Path(catalog)).dataset
            token, _ = tokens.create_token("reader", dataset, "analyst", ("total",), 1)
            url = stack.enter_context(running_gateway(path))
            connected.append(url)
            return connect(f"{url}/datasets/{dataset}", token=token)

        monkeypatch.setattr(dither, "connect", connect_to_gateway, raising=False)
        run_page(ROOT / page)
    assert connected
