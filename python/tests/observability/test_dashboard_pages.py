"""The pages of the dashboard in a real browser, while jobs run and a worker is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import forebay as fb
import pytest
from observability.test_dashboard import JOB, SLOW, Served
from webdriver import Browser

#: A name of 200 bytes, the longest, written from right to left.
LONG = "\u05d0" * 100
PAGES = ["/", "/workers", "/cache", "/events", f"/job?{urlencode({'tenant': 'vision', 'name': JOB})}"]
#: WebDriver's names of keys.
TAB, ENTER = "\ue004", "\ue007"

#: Returns the texts with too little contrast to their background: WCAG 2.1, level AA, asks for a ratio of 4.5.
FAINT = """
const rgb = (text) => { const p = text.match(/[\\d.]+/g).map(Number); return p.length > 3 ? p : [...p, 1]; };
const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
const light = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, part, i) => sum + part * linear(c[i] / 255), 0);
const behind = (el) => {
  for (; el; el = el.parentElement) {
    const colour = rgb(getComputedStyle(el).backgroundColor);
    if (colour[3] > 0.99) return colour;
  }
  return [255, 255, 255];
};
const faint = [];
for (const el of document.querySelectorAll("body *")) {
  const own = [...el.childNodes].some((n) => n.nodeType === 3 && n.nodeValue.trim());
  if (!own || !el.getClientRects().length || el.closest("svg") || el.disabled) continue;
  const [a, b] = [light(rgb(getComputedStyle(el).color)), light(behind(el))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) faint.push(`${el.tagName} ${el.className} ${el.textContent.slice(0, 30)} ${ratio.toFixed(2)}`);
}
return faint;
"""


def failing(flag: Path) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A function that fails for every sixteenth row as soon as a file exists."""

    def fail(row: dict[str, Any]) -> dict[str, Any]:
        assert row["id"] % 16 or not flag.exists()
        return row

    return fail


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("pages"))
    served.read("vision", LONG, fb.range(100_000).batch(4), pause=0.1)
    yield served
    served.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    browser = Browser()
    yield browser
    browser.close()


def sign_in(browser: Browser, served: Served, who: str) -> None:
    browser.open(f"{served.http}/#/")
    browser.js(
        "sessionStorage.clear(); sessionStorage.setItem('forebay-token', arguments[0]); location.reload()",
        served.token[who],
    )
    browser.until("document.querySelector('h1')")


def go(browser: Browser, page: str) -> None:
    browser.js("location.hash = arguments[0]", page)
    browser.until("document.querySelector('h1') && document.getElementById('link').textContent === 'live'")


def test_a_visitor_signs_in_and_the_token_stays_in_the_tab(browser: Browser, served: Served) -> None:
    browser.open(f"{served.http}/")
    browser.until("document.getElementById('login').open")
    browser.js("document.getElementById('token').value = 'wrong'; document.querySelector('#login-form button').click()")
    browser.until("document.getElementById('login-error').textContent.includes('token')")
    browser.js(
        "document.getElementById('token').value = arguments[0]; document.querySelector('#login-form button').click()",
        served.token["vision"],
    )
    browser.until("document.querySelectorAll('.jobs tbody tr').length === 2")
    token = served.token["vision"]
    assert token not in browser.js("return location.href + document.cookie + document.documentElement.outerHTML")
    assert browser.js("return localStorage.length") == 0


def test_names_are_text_and_long_ones_break_nothing(browser: Browser, served: Served) -> None:
    sign_in(browser, served, "vision")
    names = browser.until("[...document.querySelectorAll('.jobs bdi')].map((e) => e.title)")
    assert JOB in names
    assert LONG in names
    assert browser.js("return document.querySelectorAll('main script').length") == 0
    with pytest.raises(RuntimeError, match="no such alert"):
        browser.call("GET", "/alert/text")
    browser.js("[...document.querySelectorAll('.jobs a')].find((a) => a.textContent.includes('<script>')).focus()")
    browser.keys(ENTER)
    browser.until("document.querySelector('h1 > bdi')?.textContent === arguments[0]", JOB)
    assert browser.complaints() == []


def test_a_job_shows_its_bottleneck_live(browser: Browser, served: Served) -> None:
    sign_in(browser, served, "vision")
    go(browser, PAGES[4])
    browser.until(
        "document.querySelector('#why.data') && document.querySelector('.op.hot .name')?.textContent === 'map'"
    )
    assert "Data is the bottleneck: training waited" in browser.js("return document.getElementById('why').innerText")
    browser.until("document.querySelector('svg.chart path.l0').getAttribute('d').length > 20")
    before = browser.js("return document.querySelector('.tile .value').textContent")
    browser.until("document.querySelector('.tile .value').textContent !== arguments[0]", before)
    browser.js("location.hash = arguments[0]", f"/job?{urlencode({'tenant': 'speech', 'name': SLOW})}")
    browser.until("document.body.innerText.includes('There is no such job')")


def test_a_killed_worker_is_seen_without_a_reload(browser: Browser, served: Served) -> None:
    sign_in(browser, served, "admin")
    go(browser, "/workers")
    browser.until("document.querySelectorAll('tbody tr').length === 2")
    os.kill(served.fleet.processes[1].pid, signal.SIGKILL)
    browser.until("document.querySelector('.pill.lost') || document.querySelectorAll('tbody tr').length === 1")
    go(browser, "/events")
    browser.until(
        "document.body.innerText.includes('was lost') || document.body.innerText.includes('no longer listed')"
    )
    go(browser, "/")
    browser.until("document.querySelectorAll('.jobs tbody tr').length === 3")


def test_every_page_can_be_read(browser: Browser, served: Served) -> None:
    """On a phone nothing is cut off. In both themes texts have enough contrast to their background."""
    sign_in(browser, served, "admin")
    for width, height in ((380, 800), (1280, 900)):
        browser.resize(width, height)
        for page in PAGES:
            go(browser, page)
            wide = browser.js("return document.scrollingElement.scrollWidth")
            assert wide <= width, f"{page}: {wide}"
            for theme in ("light", "dark"):
                browser.js("document.documentElement.dataset.theme = arguments[0]", theme)
                assert browser.js(FAINT) == [], (page, theme)
    assert browser.complaints() == []


def test_the_keyboard_reaches_everything(browser: Browser, served: Served) -> None:
    sign_in(browser, served, "admin")
    browser.until("document.querySelectorAll('.jobs a').length === 3")
    reached = []
    for _ in range(16):
        browser.keys(TAB)
        reached.append(browser.js("return document.activeElement.id || document.activeElement.textContent"))
    for wanted in ("skip", "Workers", "theme", "search", "sort", JOB):
        assert any(wanted in one for one in reached), (wanted, reached)


def test_nothing_moves_while_figures_and_alarms_change(browser: Browser, served: Served, tmp_path: Path) -> None:
    """A job begins to skip samples meanwhile, so an alarm comes."""
    flag = tmp_path / "flag"
    ds = fb.range(100_000).map(failing(flag)).batch(64)
    served.read("vision", "failing", ds, pause=0.01, on_error="skip", error_budget=10_000_000)
    sign_in(browser, served, "admin")
    browser.until("document.querySelectorAll('.jobs tbody tr').length === 4")
    browser.until("document.querySelector('.attention').textContent.startsWith('Nothing')")
    browser.js("const s = document.getElementById('sort'); s.value = 'name'; s.dispatchEvent(new Event('change'))")
    browser.until("document.querySelector('.jobs tbody tr').textContent.startsWith('speech')")
    browser.js(
        "window.places = new Set(); window.looks = 0;"
        "const tops = () => [...document.querySelectorAll('.jobs tr')].map((row) => row.getBoundingClientRect().top);"
        "new MutationObserver(() => { window.looks += 1; window.places.add(tops().join()); })"
        ".observe(document.querySelector('main'), { subtree: true, characterData: true, childList: true })"
    )
    browser.until("window.looks >= 3")
    flag.touch()
    browser.until("document.querySelector('.attention').textContent.includes('skipped')")
    places = browser.js("return [...window.places]")
    assert len(places) == 1, places
    browser.picture(tmp_path / "jobs.png")
