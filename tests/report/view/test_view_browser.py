"""The views in a real browser: they load nothing, draw, play, work by keyboard, on a phone, in the dark and in time."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from recorded_launches import subject

from gemmsmith.report.view.page import write_view

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome is installed")

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 800}
OURS = ("ownership", "access", "pipeline", "fragments")
FRAME = 0.033  # seconds
# Moves the player to another step; all drawing happens within the event.
MOVED = """([n, count]) => {
  const scrub = document.querySelector('.scrub');
  scrub.value = String(Math.round(Number(scrub.max) * n / count));
  scrub.dispatchEvent(new Event('input'));
}"""
# Whether a canvas of the open view has more than one colour.
DRAWN = """() => [...document.querySelectorAll('canvas')].filter((c) => c.checkVisibility()).map((c) => {
  const pixels = new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer);
  return new Set(pixels).size;
})"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync.sync_playwright() as started:
        running = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("views")
    write_view(folder / "mma.html", subject("mma_swizzled"))
    write_view(folder / "threads.html", subject("vectorized"))  # blocks of 256 threads
    return folder


class Visit:
    """One page in a context of its own, with what it says and what it asks for."""

    def __init__(self, browser: Any, file: Path, size: dict[str, int], **options: Any) -> None:
        self.context = browser.new_context(viewport=size, **options)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.requested: list[str] = []
        self.page.on("console", lambda message: self._hear(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.requested.append(request.url))
        self.url = file.as_uri()
        self.page.goto(self.url)

    def _hear(self, text: str) -> None:
        if "willReadFrequently" not in text:  # what the tests themselves do: they read pixels
            self.said.append(text)

    def open(self, view: str) -> None:
        self.page.click(f"#tab-{view}")
        self.page.wait_for_function("view => !document.getElementById('view-' + view).hidden", arg=view)

    def step(self) -> int:
        return int(self.page.input_value(".scrub"))

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_draws_and_asks_for_nothing(browser: Any, where: Path, size: dict[str, int], scheme: str) -> None:
    with Visit(browser, where / "mma.html", size, color_scheme=scheme) as visit:
        for view in OURS:
            visit.open(view)
            colours = visit.page.evaluate(DRAWN)
            assert colours
            assert min(colours) > 3
            assert visit.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
            assert visit.page.inner_text(".said")
        assert visit.said == []
        assert {url.partition("#")[0] for url in visit.requested} == {visit.url}


def test_the_player_plays_pauses_and_steps_by_keyboard(browser: Any, where: Path) -> None:
    with Visit(browser, where / "mma.html", DESKTOP) as visit:
        visit.page.keyboard.press("Home")
        for key, expected in (
            ("ArrowRight", 1),
            ("Shift+ArrowRight", 11),
            ("ArrowLeft", 10),
            ("End", 127),
            ("Home", 0),
        ):
            visit.page.keyboard.press(key)
            assert visit.step() == expected
        visit.page.keyboard.press("Space")
        visit.page.wait_for_function("() => Number(document.querySelector('.scrub').value) > 2")
        visit.page.keyboard.press("Space")
        paused = visit.step()
        visit.page.wait_for_timeout(300)
        assert visit.step() == paused
        visit.page.keyboard.press("+")
        assert visit.page.input_value(".speed select") == "2"
        visit.page.keyboard.press("2")
        assert not visit.page.is_hidden("#view-access")
        assert visit.page.url.split("#")[1].startswith("access:")


def test_a_thread_under_the_pointer_is_named(browser: Any, where: Path) -> None:
    with Visit(browser, where / "mma.html", DESKTOP) as visit:
        visit.page.hover("#view-ownership canvas[aria-label*='threads by warp']", position={"x": 60, "y": 18})
        assert visit.page.inner_text(".said").startswith("thread ")


def test_every_instruction_of_an_access_can_be_chosen(browser: Any, where: Path) -> None:
    with Visit(browser, where / "mma.html", DESKTOP) as visit:
        visit.open("access")
        options = visit.page.evaluate("document.querySelector('#view-access select').options.length")
        assert options >= 5
        for n in range(options):
            visit.page.select_option("#view-access select", index=n)
            assert min(visit.page.evaluate(DRAWN)) > 3
        assert visit.said == []


def test_dark_and_light_can_be_switched(browser: Any, where: Path) -> None:
    with Visit(browser, where / "mma.html", DESKTOP, color_scheme="light") as visit:
        before = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
        visit.page.click(".theme")
        assert visit.page.evaluate("getComputedStyle(document.body).backgroundColor") != before


@pytest.mark.parametrize("view", ["ownership", "access", "pipeline"])
def test_a_block_of_256_threads_is_drawn_in_time(browser: Any, where: Path, view: str) -> None:
    """CPU time of the page's scripts for a frame, the median of twenty."""
    with Visit(browser, where / "threads.html", DESKTOP) as visit:
        session = visit.context.new_cdp_session(visit.page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        visit.open(view)
        times = []
        for n in range(20):
            before = _script_seconds(session)
            visit.page.evaluate(MOVED, [n, 20])
            times.append(_script_seconds(session) - before)
        assert 0 < sorted(times)[10] < FRAME


def _script_seconds(session: Any) -> float:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(float(each["value"]) for each in metrics if each["name"] == "ScriptDuration")
