"""The page in a real browser: it loads nothing, draws everything, works by keyboard, on a phone and in dark mode."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report_sample import BOTH, FEW, bare, sample

from gemmsmith.report import write_page
from gemmsmith.report.ladder_picture import write_ladder_picture
from gemmsmith.store.tuned_choice import recorded_choice

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome is installed")

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 760}
VIEWS = ("overview", *(f"rung-{name}" for name in FEW))
# A rung: three panels of tiles, two of speed, the bound, and three of occupancy. naive has a costly access besides,
# coalesced counters that moved, warp_tile both and a pipeline.
CHARTS = {"overview": 11, "rung-naive": 10, "rung-coalesced": 10, "rung-warp_tile": 12}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync.sync_playwright() as started:
        running = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    write_page(folder / "climb.html", replace(sample(), choice=recorded_choice()))
    write_page(folder / "bare.html", bare())
    write_page(folder / "both.html", replace(sample(BOTH), choice=recorded_choice()))
    write_ladder_picture(folder / "ladder.svg", sample())
    return folder


class Visit:
    """One page in its own context, with its console messages and requests."""

    def __init__(self, browser: Any, file: Path, size: dict[str, int], **options: Any) -> None:
        self.context = browser.new_context(viewport=size, **options)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.requested: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.requested.append(request.url))
        self.url = file.as_uri()
        self.page.goto(self.url)

    def open(self, view: str) -> None:
        self.page.evaluate("view => { location.hash = view }", view)
        self.page.wait_for_function("view => document.getElementById(view).checkVisibility()", arg=view)

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


@pytest.mark.parametrize("name", ["climb.html", "bare.html"])
def test_the_page_logs_nothing_and_requests_nothing(browser: Any, where: Path, name: str) -> None:
    with Visit(browser, where / name, DESKTOP) as visit:
        for view in VIEWS:
            visit.open(view)
        visit.page.click(".theme")
        assert visit.said == []
        assert {url.partition("#")[0] for url in visit.requested} == {visit.url}


# Every visible mark has a size and is inside its drawing; every text is inside its card.
DRAWN = """() => {
  const charts = [...document.querySelectorAll('.view.current svg.chart')].filter(c => c.checkVisibility());
  const faults = [];
  for (const chart of charts) {
    const name = chart.querySelector('title').textContent, card = chart.closest('figure').getBoundingClientRect();
    const marks = [...chart.querySelectorAll('.mark')];
    if (!marks.length) faults.push(name + ': no marks');
    for (const mark of marks) {
      const box = mark.getBoundingClientRect();
      if (!(box.width > 0 && box.height > 0)) faults.push(name + ': an empty mark');
      const whole = chart.getBoundingClientRect();
      if (box.top < whole.top || box.bottom > whole.bottom) faults.push(name + ': a mark above or below');
    }
    for (const part of chart.querySelectorAll('text, .mark')) {
      const box = part.getBoundingClientRect();
      const out = box.left < card.left - 1 || box.right > card.right + 1;
      if (out) faults.push(name + ' sticks out: ' + part.textContent);
    }
  }
  return [charts.length, faults];
}"""


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_every_chart_is_drawn_within_its_bounds(browser: Any, where: Path, size: dict[str, int]) -> None:
    with Visit(browser, where / "climb.html", size) as visit:
        for view in VIEWS:
            visit.open(view)
            count, faults = visit.page.evaluate(DRAWN)
            assert faults == []
            assert count == CHARTS[view]


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_charts_of_both_execution_units_are_drawn_within_their_bounds(
    browser: Any, where: Path, size: dict[str, int]
) -> None:
    with Visit(browser, where / "both.html", size) as visit:
        for view, charts in (("overview", 14), ("rung-mma_swizzled", 11)):
            visit.open(view)
            assert visit.page.evaluate(DRAWN) == [charts, []]
            assert visit.page.evaluate("() => document.documentElement.scrollWidth") <= size["width"], view


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_never_scrolls_sideways(browser: Any, where: Path, scheme: str) -> None:
    with Visit(browser, where / "climb.html", PHONE, color_scheme=scheme) as visit:
        for view in VIEWS:
            visit.open(view)
            visit.page.evaluate("() => document.querySelectorAll('details').forEach(d => { d.open = true })")
            assert visit.page.evaluate("() => document.documentElement.scrollWidth") <= 360, view


def test_every_link_reaches_its_target(browser: Any, where: Path) -> None:
    with Visit(browser, where / "climb.html", DESKTOP) as visit:
        hashes = visit.page.evaluate(
            "() => [...new Set([...document.querySelectorAll('a[href]')].map(a => a.getAttribute('href')))]"
        )
        assert len(hashes) > 12
        for target in hashes:
            visit.page.evaluate("() => { location.hash = 'overview' }")
            visit.page.evaluate("hash => document.querySelector(`a[href='${hash}']`).click()", target)
            visit.page.wait_for_function("""hash => {
              const target = document.querySelector(hash), box = target.getBoundingClientRect();
              return location.hash === hash && target.checkVisibility() && box.top < innerHeight && box.bottom > 0;
            }""", arg=target, timeout=3000)  # fmt: skip


def test_the_keyboard_reaches_sections_and_rungs_and_opens_them(browser: Any, where: Path) -> None:
    with Visit(browser, where / "climb.html", DESKTOP) as visit:
        page, reached = visit.page, []
        for _ in range(40):
            page.keyboard.press("Tab")
            reached.append(
                page.evaluate("() => document.activeElement.getAttribute('href') || document.activeElement.tagName")
            )
            if reached[-1] == "#rung-warp_tile":
                break
        order = [reached.index(name) for name in ("#overview", "#ladder", "#method", "#rung-naive", "#rung-warp_tile")]
        assert order == sorted(order)
        outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", "focus can be seen"
        page.keyboard.press("Enter")
        page.wait_for_function("() => document.getElementById('rung-warp_tile').checkVisibility()")
        assert not page.evaluate("() => document.getElementById('overview').checkVisibility()")
        assert page.evaluate("() => document.activeElement.textContent") == "warp_tile", "focus goes to the heading"
        assert page.title().startswith("warp_tile")
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.closest('.view')?.id") == "rung-warp_tile"
        page.go_back()
        page.wait_for_function("() => document.getElementById('overview').checkVisibility()")


def test_a_link_into_the_page_opens_that_rung(browser: Any, where: Path) -> None:
    with Visit(browser, where / "climb.html", DESKTOP) as visit:
        visit.page.goto(visit.url + "#rung-coalesced")
        visit.page.reload()
        shown = visit.page.evaluate(
            "() => [...document.querySelectorAll('.view')].filter(v => v.checkVisibility()).map(v => v.id)"
        )
        assert shown == ["rung-coalesced"]
        current = visit.page.evaluate("() => document.querySelector('.rungs-nav [aria-current]').hash")
        assert current == "#rung-coalesced"


def test_the_theme_follows_the_system_until_the_reader_chooses(browser: Any, where: Path) -> None:
    paper = "() => getComputedStyle(document.body).backgroundColor"
    with Visit(browser, where / "climb.html", DESKTOP, color_scheme="dark") as visit:
        dark = visit.page.evaluate(paper)
        visit.page.click(".theme")
        light = visit.page.evaluate(paper)
        visit.page.emulate_media(color_scheme="light")
        assert visit.page.evaluate(paper) == light != dark
        visit.page.click(".theme")
        assert visit.page.evaluate(paper) == dark


# The WCAG 2 contrast of every visible text with its background; a halo counts as background.
CONTRAST = """() => {
  const rgb = words => {
    const found = words.match(/[\\d.]+/g).map(Number);
    return found.length > 3 && found[3] === 0 ? null : found.slice(0, 3);
  };
  const linear = v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const paper = node => { for (; node; node = node.parentElement) {
    const found = rgb(getComputedStyle(node).backgroundColor); if (found) return found; } return [255, 255, 255]; };
  const behind = text => {
    const own = getComputedStyle(text);
    if (own.stroke !== 'none' && parseFloat(own.strokeWidth) >= 4) return rgb(own.stroke);
    const box = text.getBoundingClientRect();
    for (const node of document.elementsFromPoint(box.left + box.width / 2, box.top + box.height / 2)) {
      if (node === text || ['text', 'line', 'polyline'].includes(node.tagName)) continue;
      const fill = getComputedStyle(node).fill;
      if (['rect', 'circle', 'polygon'].includes(node.tagName)) {
        if (fill.startsWith('rgb')) return rgb(fill);
        continue;
      }
      return paper(node.closest('figure') || node);
    }
    return paper(text.closest('figure'));
  };
  const poor = {}; let count = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const holder = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !holder.checkVisibility()) continue;
    if (holder.closest('title, desc, script, style')) continue;
    const inside = holder.tagName === 'text';
    const ink = rgb(inside ? getComputedStyle(holder).fill : getComputedStyle(holder).color);
    const found = ratio(ink, inside ? behind(holder) : paper(holder));
    count += 1;
    const name = `${holder.tagName}.${holder.getAttribute('class')} ${found.toFixed(2)}`;
    if (found < 4.5) poor[name] = walker.currentNode.textContent;
  }
  return [count, poor];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_enough_contrast(browser: Any, where: Path, scheme: str) -> None:
    # A window as high as the page: what is not in it has nothing behind it.
    with Visit(browser, where / "climb.html", {"width": 1280, "height": 14_000}, color_scheme=scheme,
               device_scale_factor=0.25) as visit:  # fmt: skip
        for view in ("overview", "rung-warp_tile"):
            visit.open(view)
            visit.page.evaluate("() => document.querySelectorAll('details').forEach(d => { d.open = true })")
            count, poor = visit.page.evaluate(CONTRAST)
            assert poor == {}
            assert count > 500


@pytest.mark.parametrize("size", [PHONE, {"width": 600, "height": 800}, DESKTOP])
def test_a_section_reached_by_its_link_is_not_under_the_bar(browser: Any, where: Path, size: dict[str, int]) -> None:
    with Visit(browser, where / "both.html", size) as visit:
        for key in ("rungs", "roofline", "memory"):
            visit.open(key)
            top, bar = visit.page.evaluate("""key => {
                const title = document.querySelector('#' + key + ' h2').getBoundingClientRect();
                const bar = document.querySelector('.bar').getBoundingClientRect();
                return [title.top, bar.right > title.left ? bar.bottom : 0];  // on a desktop it is on the left
            }""", key)  # fmt: skip
            assert bar <= top < bar + 60, key


WIDTHS = (360, 390, 768, 1280, 1920)
# Words that stick out of the drawing, of their card, or of the window; what scrolls by itself is left out.
CLIPPED = """() => {
  const wide = document.documentElement.clientWidth, faults = [];
  for (const text of document.querySelectorAll('.view.current svg.chart text')) {
    if (!text.checkVisibility()) continue;
    const box = text.getBoundingClientRect(), chart = text.closest('svg').getBoundingClientRect();
    const card = text.closest('figure').getBoundingClientRect();
    if (box.left < card.left || box.right > card.right || box.bottom > chart.bottom + 1 || box.top < chart.top - 1)
      faults.push(text.closest('figure').id + ': ' + text.textContent);
  }
  for (const node of document.querySelectorAll('.view.current :is(h1, h2, h3, h4, p, li, dd, dt, button, summary)')) {
    if (!node.checkVisibility() || node.closest('.scroll, pre')) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    if (range.getBoundingClientRect().right > wide + 1) faults.push(node.tagName + ': ' + node.textContent);
  }
  return faults;
}"""


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_clipped_at_any_width(browser: Any, where: Path, width: int) -> None:
    with Visit(browser, where / "both.html", {"width": width, "height": 900}) as visit:
        for view in ("overview", "rung-naive", "rung-mma_swizzled"):
            visit.open(view)
            assert visit.page.evaluate(CLIPPED) == [], (view, width)
            assert visit.page.evaluate("() => document.documentElement.scrollWidth") <= width, view


def test_rungs_are_found_by_name_on_a_desktop_and_on_a_phone(browser: Any, where: Path) -> None:
    with Visit(browser, where / "both.html", DESKTOP) as visit:
        assert visit.page.locator(".rungs-nav a", has_text="mma_swizzled").is_visible()
    with Visit(browser, where / "both.html", PHONE) as visit:
        page, link = visit.page, visit.page.locator(".rungs-nav a", has_text="mma_swizzled")
        assert not link.is_visible(), "the menu is closed"
        page.click(".menu > summary")
        link.click()
        page.wait_for_function("() => document.getElementById('rung-mma_swizzled').checkVisibility()")
        assert not link.is_visible(), "the menu closes when a rung is chosen"
        assert page.locator(".menu > summary").inner_text() == "Contents: mma_swizzled"


def test_a_chart_tells_the_value_under_the_pointer_and_highlights_its_kernel(browser: Any, where: Path) -> None:
    with Visit(browser, where / "climb.html", DESKTOP) as visit:
        page = visit.page
        chart = page.locator("#chart-sizes svg.wide")
        chart.scroll_into_view_if_needed()
        mark = page.locator("#chart-sizes svg.wide [data-series='warp_tile'] .mark").last
        mark.hover()
        tip = page.locator(".tip").inner_text()
        assert tip.startswith("warp_tile: 45.0 TFLOPS at 8192³")
        lit = "() => [...new Set([...document.querySelectorAll('#chart-sizes .wide .lit')].map(n => n.dataset.series))]"
        assert page.evaluate(lit) == ["warp_tile"]
        faint = "() => getComputedStyle(document.querySelector(\"#chart-sizes .wide [data-series='naive']\")).opacity"
        page.wait_for_function(f"() => ({faint})() < 0.5")
        page.mouse.move(0, 0)
        assert not page.locator(".tip").is_visible()
        assert page.evaluate(lit) == []


def test_a_chart_is_read_by_keyboard(browser: Any, where: Path) -> None:
    with Visit(browser, where / "climb.html", DESKTOP, reduced_motion="reduce") as visit:
        page = visit.page
        page.locator("#chart-ladder svg.wide").focus()
        told = []
        for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"):
            page.keyboard.press(key)
            told.append(page.locator(".tip").inner_text().split(":")[0])
        assert told == ["naive", "coalesced", "warp_tile", "coalesced"]
        assert page.locator(".tip").get_attribute("role") == "status", "a screen reader says it"
        page.keyboard.press("Escape")
        assert not page.locator(".tip").is_visible()


def test_filters_hide_chapters_and_single_kernels(browser: Any, where: Path) -> None:
    off = "() => [...new Set([...document.querySelectorAll('#chart-sizes .wide .off')].map(n => n.dataset.series))]"
    with Visit(browser, where / "both.html", DESKTOP) as visit:
        page = visit.page
        page.click("#chart-sizes .chips button:has-text('Threads and memory')")
        assert page.evaluate(off) == ["naive", "coalesced"]
        page.click("#chart-sizes .single > summary")
        page.click("#chart-sizes .single button:has-text('naive')")
        assert page.evaluate(off) == ["coalesced"]
        page.click("#chart-sizes .single button:has-text('None')")
        assert "warp_tile" in page.evaluate(off)
        assert page.get_attribute("#chart-sizes .single button:has-text('warp_tile')", "aria-pressed") == "false"
        page.click("#chart-sizes .single button:has-text('All')")
        assert page.evaluate(off) == []


def test_reduced_motion_stops_every_transition(browser: Any, where: Path) -> None:
    moving = """() => [...document.querySelectorAll('*')].filter(n => {
      const s = getComputedStyle(n);
      return parseFloat(s.transitionDuration) > 0 || (s.animationName !== 'none' && parseFloat(s.animationDuration) > 0)
        || s.scrollBehavior === 'smooth';
    }).length"""
    for motion, some in (("reduce", False), ("no-preference", True)):
        with Visit(browser, where / "climb.html", DESKTOP, reduced_motion=motion) as visit:
            assert bool(visit.page.evaluate(moving)) == some


@pytest.mark.parametrize(
    ("view", "size", "scheme"), [("overview", DESKTOP, "light"), ("rung-warp_tile", PHONE, "dark")]
)
def test_axe_finds_nothing(browser: Any, where: Path, view: str, size: dict[str, int], scheme: str) -> None:
    package = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    axe = Path(package.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
    with Visit(browser, where / "climb.html", size, color_scheme=scheme) as visit:
        visit.open(view)
        visit.page.evaluate("() => document.querySelectorAll('.view.current details').forEach(d => { d.open = true })")
        visit.page.evaluate(axe)
        found = visit.page.evaluate(
            "() => axe.run({exclude: [['.view:not(.current)']]}, {resultTypes: ['violations']})"
        )
        faults = [(one["id"], node["html"][:120]) for one in found["violations"] for node in one["nodes"]]
        assert faults == []
        assert len(found["passes"]) > 30, "the rules ran"


def test_the_page_works_without_scripts(browser: Any, where: Path) -> None:
    with Visit(browser, where / "climb.html", DESKTOP, java_script_enabled=False) as visit:
        page = visit.page
        for view in VIEWS:
            assert page.locator(f"#{view}").is_visible()
        assert not page.locator(".theme").is_visible()
        assert page.locator("#chart-ladder svg.wide").is_visible()
        page.locator("#chart-ladder summary").click()
        assert page.locator("#chart-ladder table").is_visible()


def test_the_picture_of_the_ladder_is_an_image(browser: Any, where: Path) -> None:
    (where / "readme.html").write_text('<img src="ladder.svg" alt="the ladder">', encoding="utf-8")
    with Visit(browser, where / "readme.html", DESKTOP) as visit:
        visit.page.wait_for_function("() => document.images[0].complete")
        assert visit.page.evaluate("() => document.images[0].naturalWidth") > 900
        assert visit.said == []
