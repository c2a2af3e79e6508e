"""The console in a real browser: Debian's Chromium, driven by Playwright (make test-all).

`DITHER_WRITE_SCREENSHOTS=1` writes docs/console/*.png anew.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from io import BytesIO, StringIO
from pathlib import Path
from urllib.parse import urlencode

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from PIL import Image
from rich.console import Console

from dither.cli.served import prepare_demo
from dither.console.pages import make_pages
from dither.console.settings import ConsoleSettings
from dither.identity import Authority, TokenStore
from dither.identity.signed_acts import sign_act
from dither.privacy.kernel.kernel import Kernel
from dither.state import State
from dither.steward import clear_incidents
from tests.curator.test_signed_acts import pin
from tests.datasets.served_clinic import ServedClinic, own_state_home, running_gateway, start_server

pytestmark = pytest.mark.all
AXE = Path(sys.prefix) / "node_modules" / "axe-core" / "axe.min.js"
PICTURES = Path(__file__).parents[2] / "docs" / "console"
MOST_PICTURE_BYTES = 1_500_000
COLOURS = 40
WIDE = {"width": 1280, "height": 860}
PHONE = {"width": 390, "height": 844}
COUNT = "SELECT COUNT(*) AS n FROM visits"
BY_WARD = "SELECT ward, COUNT(*) AS n\nFROM visits\nGROUP BY ward"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
KEY = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32)
SLOT_S = 0.2


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> Iterator[ServedClinic]:
    """The invented clinic behind curator and gateway, with a register that is open to all."""
    folder = tmp_path_factory.mktemp("demo")
    with own_state_home(folder), tempfile.TemporaryDirectory(prefix="dither") as short:
        file = prepare_demo(folder / "demo", Console(file=StringIO()))
        home = folder / "home"
        path = Path(short) / "s"
        server = start_server(file, home, path, SLOT_S)
        served = ServedClinic(file, State.beside(file), home, path, TokenStore(home), server)
        authority = Authority(home)
        pin(authority, KEY)
        authority.close()
        register = {"clinic": served.make_token("zoe", "auditor", ())}
        pages = make_pages(ConsoleSettings(register_tokens=register))
        with running_gateway(path, pages) as address:
            served.address = address
            yield served
        server.stop()
        served.tokens.close()


@pytest.fixture(autouse=True)
def heads_of_the_demo(demo, monkeypatch) -> None:
    """Each test has a home of heads of its own; the curator of this file reads that of the demo."""
    monkeypatch.setenv("XDG_STATE_HOME", str(demo.home.parent / "xdg"))


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium")
    if program is None or not AXE.exists():
        pytest.skip("no chromium or no axe-core: make setup-all installs both")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=program, chromium_sandbox=False)
        yield opened
        opened.close()


@pytest.fixture
def complaints() -> list[str]:
    """Errors of scripts, and violations of the security policy, of all pages of a test."""
    return []


@pytest.fixture
def open_page(browser, demo, complaints):
    """Opens a page, signed in by a link as `dither serve` prints it."""
    contexts = []

    def open_page(role: str = "analyst", name: str = "ann", **options):
        context = browser.new_context(viewport=WIDE, base_url=demo.address, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda text: complaints.append(text.text) if _is_error(text) else None)
        page.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
        if role:
            page.goto(f"/datasets/clinic#token={demo.make_token(name, role)}")
            page.wait_for_selector("h2:has-text('Who is protected')")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


_NO_FAULTS = ("status of 4", "htmx:sendAbort", "htmx:afterRequest")
"""Refusals, and requests that later typing replaced, or that were under way at the end."""


def _is_error(text) -> bool:
    return text.type == "error" and not any(words in text.text for words in _NO_FAULTS)


def write_link(sql: str, amount: str = "0.1", **more: str) -> str:
    return f"/datasets/clinic/ask?{urlencode({'sql': sql, 'amount': amount, **more})}"


def ask(page, sql: str, amount: str = "0.1", **more: str) -> None:
    page.goto(write_link(sql, amount, **more))
    page.click("button:has-text('Ask for')")
    page.click("button:has-text('Pay and answer')")
    page.wait_for_selector("h1:has-text('The answer')")


def test_the_link_becomes_a_session_and_leaves_the_address(open_page):
    page = open_page()
    assert "#" not in page.url and "token" not in page.url
    cookies = {cookie["name"]: cookie for cookie in page.context.cookies()}
    assert cookies["dither-session"]["httpOnly"]
    assert cookies["dither-session"]["sameSite"] == "Lax"
    assert page.evaluate("document.cookie") == ""


def test_the_preview_changes_while_typing_and_the_address_follows(open_page, demo):
    page = open_page()
    spent = demo.read_spent()
    page.goto(write_link(COUNT))
    page.wait_for_selector(".CodeMirror")
    before = page.inner_text("#preview .price")
    page.fill("#amount", "0.4")
    page.wait_for_function(
        "text => document.querySelector('#preview .price').innerText !== text", arg=before
    )
    page.wait_for_url(re.compile(r"amount=0\.4"))
    page.click(".CodeMirror")
    page.keyboard.press("Control+End")
    page.keyboard.type(" WHERE urgent")
    page.wait_for_url(re.compile("urgent"))
    page.select_option("#by", "within")
    page.fill("#amount", "30")
    page.wait_for_selector("#preview h3:has-text('± 30')")
    page.focus("#by")
    page.select_option("#by", "epsilon")
    page.focus("#slider")
    page.keyboard.press("ArrowRight")
    assert demo.read_spent() == spent


def test_the_editor_completes_names_of_the_catalog(open_page):
    page = open_page()
    page.goto("/datasets/clinic/ask")
    page.click(".CodeMirror")
    page.keyboard.type("SELECT COUNT(*) FROM vis")
    page.keyboard.press("Control+Space")
    page.wait_for_selector(".CodeMirror-hint:has-text('visits')")
    page.keyboard.press("Enter")
    page.wait_for_selector("#preview .price")


def test_the_editor_completes_clauses_and_columns_after_a_dot(open_page):
    page = open_page()
    page.goto("/datasets/clinic/ask")
    page.click(".CodeMirror")
    page.keyboard.type("SELECT COUNT(*) AS n FROM visits GRO")
    page.keyboard.press("Control+Space")
    page.wait_for_selector(".CodeMirror-hint:has-text('GROUP BY')")
    page.keyboard.press("Enter")
    page.keyboard.type(" visits.wa")
    page.keyboard.press("Control+Space")
    page.wait_for_selector(".CodeMirror-hint:has-text('ward')")


def test_a_named_parameter_becomes_a_field_while_typing(open_page):
    page = open_page()
    page.goto(write_link(COUNT))
    page.wait_for_selector(".CodeMirror")
    page.click(".CodeMirror")
    page.keyboard.press("Control+End")
    page.keyboard.type(" WHERE ward = :where")
    page.wait_for_selector("#p_where")
    page.fill("#p_where", "surgery")
    page.wait_for_selector("#preview .price")
    page.wait_for_url(re.compile("p_where=surgery"))
    assert page.evaluate("document.activeElement.id") == "p_where"


def test_a_question_is_saved_shared_opened_and_removed(open_page):
    name = '<b>urgent</b> & "others"'
    ann = open_page("analyst", "ann")
    ann.goto(write_link("SELECT COUNT(*) AS n FROM visits WHERE urgent"))
    ann.click("summary:has-text('Save this question')")
    ann.fill("#question_name", name)
    ann.check("#is_shared")
    ann.click("button:has-text('Save')")
    ann.wait_for_selector(".saved li")
    bob = open_page("analyst", "bob")
    bob.goto("/datasets/clinic/questions")
    assert bob.inner_text(".saved li a") == name
    bob.click(".saved li a")
    bob.wait_for_selector("#preview .price")
    ann.click(".saved button:has-text('Remove')")
    ann.wait_for_selector("text=None yet")


def test_a_link_on_another_site_signs_nobody_in_by_itself(open_page, demo):
    page = open_page("")
    link = f"{demo.address}/datasets/clinic#token={demo.make_token('eve')}"
    page.set_content(f"<a href='{link}'>a gift</a>")
    page.click("a")
    page.wait_for_selector("text=You came here from another site")
    page.wait_for_timeout(300)
    assert page.input_value("#token") and "#" not in page.url
    assert not [cookie for cookie in page.context.cookies() if cookie["name"] == "dither-session"]


def test_limits_are_tried_on_invented_numbers(open_page):
    page = open_page("steward", "ann")
    page.goto("/catalog/limits")
    page.fill("#mean", "12")
    page.click("button:has-text('Try')")
    page.wait_for_selector("text=errs least")
    assert page.query_selector("svg.chart[aria-label*='rows left out']")


def test_a_refusal_is_mended_by_a_click(open_page):
    page = open_page()
    page.goto(write_link("SELECT wrd, COUNT(*) AS n FROM visits GROUP BY wrd"))
    assert page.inner_text("mark") == "wrd"
    assert page.inner_text(".CodeMirror .refused-text") == "wrd"
    page.click("a:has-text('write ward for wrd')")
    page.wait_for_selector("#preview .price")


def test_two_analysts_spend_from_one_pot_and_see_each_other_s_effect(open_page, demo):
    ann = open_page("analyst", "ann")
    bob = open_page("analyst", "bob")
    pages = {ann: "SELECT COUNT(*) AS a FROM visits", bob: "SELECT COUNT(*) AS b FROM patients"}
    spent = demo.read_spent()
    for page, sql in pages.items():
        page.goto(write_link(sql, "0.11"))
        page.click("button:has-text('Ask for')")
    for page in pages:
        page.click("button:has-text('Pay and answer')", no_wait_after=True)
    for page in pages:
        page.wait_for_selector("h1:has-text('The answer')")
    after = demo.read_spent()
    assert after > spent
    balances = set()
    for page in pages:
        page.goto("/datasets/clinic/budget")
        balances.add(page.inner_text("article .price"))
    assert len(balances) == 1


def test_a_drained_pot_is_refused_in_the_page(open_page, demo):
    page = open_page()
    spent = demo.read_spent()
    page.goto(write_link(COUNT, "30"))
    page.wait_for_selector("text=The budget cannot pay this")
    assert page.query_selector("button:has-text('Ask for')") is None
    assert demo.read_spent() == spent


def test_an_answer_its_files_and_its_certificate(open_page):
    page = open_page()
    ask(page, BY_WARD, "0.12")
    assert page.query_selector("svg.chart[role=img][aria-label*='emergency']")
    with page.expect_download() as download:
        page.click("a:has-text('CSV')")
    assert download.value.suggested_filename.endswith(".csv")
    page.click("a.button:has-text('Certificate')")
    page.wait_for_selector("text=As signed: no field was changed")
    page.click("button:has-text('Check it with a key of yours')")
    page.wait_for_selector("h1:has-text('Verify a certificate')")
    changed = page.input_value("#certificate").replace("visits", "patients")
    page.fill("#certificate", changed)
    page.click("button:has-text('Check')")
    page.wait_for_selector("text=Not as signed.")


def test_a_token_that_is_revoked_mid_session_leads_to_the_sign_in(browser, demo):
    text, token = demo.tokens.create_token("eve", "clinic", "analyst", ("total",), 1)
    context = browser.new_context(base_url=demo.address)
    page = context.new_page()
    page.goto(f"/datasets/clinic#token={text}")
    page.wait_for_selector("h2:has-text('Who is protected')")
    page.goto(write_link(COUNT))
    page.wait_for_selector(".CodeMirror")
    demo.tokens.revoke_token(token.token_id)
    page.fill("#amount", "0.3")
    page.wait_for_selector("text=Your session has ended")
    context.close()


def test_a_steward_signs_a_raise_elsewhere_and_delivers_it(open_page, demo):
    page = open_page("steward", "ann")
    page.goto("/datasets/clinic/steward?kind=raise")
    page.fill("#f-cap", "0.6")
    page.fill("#f-reason", "a second report was approved")
    page.click("button:has-text('Write the act')")
    act = json.loads(page.inner_text("pre[aria-label='The act']"))
    page.fill("#signed", json.dumps(sign_act(act, KEY, 1)))
    page.click("button:has-text('Deliver')")
    page.wait_for_selector("text=Done: the cap of total is raised")


def test_markup_in_every_field_runs_nothing(open_page):
    """The dialogs of these scripts would be complaints of the page."""
    page = open_page("steward", "ann")
    for markup in ("<script>alert(1)</script>", "\"'><img src=x onerror=alert(2)>"):
        sql = f"SELECT COUNT(*) AS n FROM visits WHERE ward = '{markup}' -- {markup}"
        page.goto(write_link(sql, markup, p_x=markup))
        page.wait_for_selector("#preview h2")
        page.goto(f"/datasets/clinic/history?{urlencode({'words': markup})}")
        page.goto(f"/login?{urlencode({'next': '/' + markup})}")
        page.goto("/datasets/clinic/steward?kind=raise")
        page.fill("#f-cap", markup)
        page.fill("#f-reason", markup)
        page.click("button:has-text('Write the act')")
        page.wait_for_selector("pre[aria-label='The act']")
        page.goto("/verify")
        page.fill("#certificate", markup)
        page.click("button:has-text('Check')")
        page.goto("/catalog/limits")
        page.fill("#mean", markup[:20])
        page.click("button:has-text('Try')")
        page.goto(f"/datasets/clinic/steward?{urlencode({'kind': 'grant', 'holder': markup})}")
        page.goto(f"/datasets/clinic/budget?{urlencode({'pot': markup})}")
        page.goto("/catalog")
        page.fill("#header", f"a,{markup}")
        page.check("#is_header")
        page.click("button:has-text('Next')")
    assert page.query_selector("img[src=x]") is None


def test_a_person_with_a_keyboard_alone_asks_a_question(open_page, demo):
    page = open_page()
    spent = demo.read_spent()
    page.goto(write_link("SELECT COUNT(*) AS keyed FROM visits", "0.13"))
    page.wait_for_selector(".CodeMirror")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    press_until(page, "Ask for")
    page.wait_for_selector("h1:has-text('Pay for this answer?')")
    press_until(page, "Pay and answer")
    page.wait_for_selector("h1:has-text('The answer')")
    assert demo.read_spent() > spent


def press_until(page, words: str) -> None:
    """Press Tab until the focused element has these words, then Enter."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if words in page.evaluate("document.activeElement.innerText || ''")[:60]:
            page.keyboard.press("Enter")
            return
    raise AssertionError(f"no way to {words} by the keyboard")


def test_a_person_without_scripts_reads_and_asks(open_page, browser, demo):
    state = open_page().context.storage_state()
    context = browser.new_context(
        java_script_enabled=False, storage_state=state, base_url=demo.address
    )
    page = context.new_page()
    page.goto("/datasets/clinic/ask")
    page.fill("#sql", "SELECT COUNT(*) AS still FROM visits")
    page.fill("#amount", "0.14")
    page.click("button:has-text('Preview')")
    assert "form_token" not in page.url
    page.click("button:has-text('Ask for')")
    page.click("button:has-text('Pay and answer')")
    assert "The answer" in page.inner_text("h1")
    context.close()


PAGES = {
    "datasets": "/datasets",
    "dataset": "/datasets/clinic",
    "ask": write_link(BY_WARD, "0.2"),
    "refused": write_link("SELECT wrd, COUNT(*) AS n\nFROM visits\nGROUP BY wrd"),
    "budget": "/datasets/clinic/budget",
    "history": "/datasets/clinic/history",
    "register": "/datasets/clinic/register",
    "about": "/datasets/clinic/about",
    "questions": "/datasets/clinic/questions",
    "steward": "/datasets/clinic/steward",
    "users": "/datasets/clinic/users",
    "limits": "/catalog/limits",
    "catalog": "/catalog",
    "verify": "/verify",
    "login": "/login",
    "nothing": "/no-such-page",
    "answer": f"/datasets/clinic/answer?{urlencode({'sql': BY_WARD, 'amount': '0.15'})}",
    "certificate": f"/datasets/clinic/certificate?{urlencode({'sql': BY_WARD, 'amount': '0.15'})}",
}


@pytest.fixture(scope="module")
def watched(browser, demo):
    """A steward's page in which axe may be run, after one question was asked."""
    context = browser.new_context(viewport=WIDE, base_url=demo.address, bypass_csp=True)
    page = context.new_page()
    page.goto(f"/datasets/clinic#token={demo.make_token('ann', 'steward')}")
    page.wait_for_selector("h2:has-text('Who is protected')")
    ask(page, BY_WARD, "0.15")
    page.goto(write_link("SELECT COUNT(*) AS n FROM visits WHERE urgent"))
    page.click("summary:has-text('Save this question')")
    page.fill("#question_name", "urgent visits")
    page.check("#is_shared")
    page.click("button:has-text('Save')")
    yield page
    context.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_barrier_and_fits_a_phone(watched, name):
    """axe-core finds no violation of WCAG 2.2 AA, in light and dark, wide and narrow."""
    for viewport in (WIDE, PHONE):
        watched.set_viewport_size(viewport)
        for scheme in ("light", "dark"):
            watched.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            response = watched.goto(PAGES[name])
            assert response.status == (404 if name == "nothing" else 200)
            watched.wait_for_timeout(200)
            check_barriers(watched)
        assert watched.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


def check_barriers(page) -> None:
    """axe-core finds nothing on the page as it stands."""
    page.add_script_tag(path=str(AXE))
    report = page.evaluate("rules => axe.run(document, {runOnly: rules})", RULES)
    assert len(report["passes"]) > 10
    assert [violation["id"] for violation in report["violations"]] == []


def check_schemes(page) -> None:
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        check_barriers(page)
    page.emulate_media(color_scheme="light")


def test_pages_behind_forms_have_no_barrier(watched, browser, demo):
    """The page of confirming, a rehearsal, a trial of typed numbers, and opening a link."""
    watched.set_viewport_size(PHONE)
    watched.goto(write_link("SELECT COUNT(*) AS unasked FROM visits", "0.05"))
    watched.click("button:has-text('Rehearse')")
    watched.wait_for_selector("text=about nobody")
    check_schemes(watched)
    watched.goto(write_link("SELECT COUNT(*) AS unasked FROM visits", "0.05"))
    watched.click("button:has-text('Ask for')")
    watched.wait_for_selector("text=Pay for this answer?")
    check_schemes(watched)
    watched.goto("/datasets/clinic/steward?kind=grant")
    watched.fill("#f-holder", "user:ann")
    watched.click("button:has-text('Write the act')")
    check_schemes(watched)
    context = browser.new_context(base_url=demo.address, bypass_csp=True)
    stranger = context.new_page()
    stranger.goto("/datasets/clinic")
    check_schemes(stranger)
    context.close()


def write_picture(content: bytes, file: Path) -> None:
    """Write a picture in few colours: a third of the size, and as readable."""
    picture = Image.open(BytesIO(content)).convert("RGB").quantize(COLOURS)
    picture.save(file, optimize=True)


def test_pictures_of_every_page_are_small_and_can_be_made_anew(watched):
    """Written where the variable asks for it; else only counted."""
    if os.environ.get("DITHER_WRITE_SCREENSHOTS"):
        PICTURES.mkdir(exist_ok=True)
        watched.emulate_media(color_scheme="light")
        for name, path in PAGES.items():
            for width, viewport in (("wide", WIDE), ("phone", PHONE)):
                watched.set_viewport_size(viewport)
                watched.goto(path)
                watched.wait_for_timeout(300)
                write_picture(watched.screenshot(), PICTURES / f"{name}-{width}.png")
    pictures = {picture.name: picture.stat().st_size for picture in PICTURES.glob("*.png")}
    assert set(pictures) == {f"{name}-{width}.png" for name in PAGES for width in ("wide", "phone")}
    assert sum(pictures.values()) < MOST_PICTURE_BYTES


def test_a_suspended_dataset_says_since_when_and_how_it_is_cleared(watched, demo, monkeypatch):
    """Also for the eye: its picture is kept by hand beside the others where it changes."""

    def fail(*_):
        raise RuntimeError("the engine ran out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(Kernel, "measure", fail)
        watched.goto(write_link("SELECT COUNT(*) AS broken FROM visits", "0.01"))
        watched.click("button:has-text('Ask for')")
        watched.click("button:has-text('Pay and answer')")
        watched.wait_for_selector("h1")
    try:
        watched.goto("/datasets/clinic/ask")
        assert "suspended since" in watched.inner_text("main .notice")
        assert "Clear with" in watched.inner_text("main .notice")
        check_schemes(watched)
    finally:
        clear_incidents(demo.state, "the test is over now")
    watched.goto("/datasets/clinic/ask")
    assert watched.query_selector("main .notice") is None


def test_a_pot_that_is_spent_to_the_last_pays_nothing_and_shows_what_it_paid_for(open_page, demo):
    """The last test of the file: nobody can ask after it."""
    page = open_page()
    ledger = demo.server._service._datasets["clinic"]._curator.kernel.ledger
    remaining = ledger.pot("total").left
    ask(page, "SELECT COUNT(*) AS rest FROM patients", str(remaining), by="rho")
    assert ledger.pot("total").left < remaining / 1_000
    page.goto(write_link("SELECT COUNT(*) AS more FROM patients", "0.5"))
    page.wait_for_selector("text=The budget cannot pay this")
    assert page.query_selector("button:has-text('Ask for')") is None
    page.goto("/datasets/clinic/history")
    page.click("td a:has-text('certificate')")
    page.wait_for_selector("text=As signed: no field was changed")
