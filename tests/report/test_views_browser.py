"""The views of grid, occupancy, code and comparison in a browser: they draw, follow the keyboard, and are right."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_views_data import recorded, tile, with_blocks

from gemmsmith.explain.occupancy import occupancy
from gemmsmith.gpus import gpus
from gemmsmith.report.view.data.grid import union_area
from gemmsmith.report.view.page import write_view
from gemmsmith.trace.launch_trace import Outline

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome is installed")
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
VIEWS = ("grid", "occupancy", "code", "compare")


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
    write_view(folder / "two.html", replace(recorded("vectorized"), other=recorded("padded")))
    # Four blocks share each of two tiles, along k: two clusters of four.
    split = [tile(n, n // 4, 0, 64 * (n % 4), 64 * (n % 4) + 63) for n in range(8)]
    write_view(folder / "split.html", with_blocks(split, cluster=4))
    # Three blocks divide the k of two tiles: the second has the end of one and the beginning of the other.
    parts = [((0, 0, 0, 191),), ((0, 0, 192, 255), (0, 1, 0, 127)), ((0, 1, 128, 255),)]
    stream = [
        Outline(
            (n, 0, 0),
            stored=tile(n, 0, n > 0).stored,
            parts=tuple((64 * r, 64 * r + 63, 64 * c, 64 * c + 63, k0, k1) for r, c, k0, k1 in mine),
        )
        for n, mine in enumerate(parts)
    ]
    write_view(folder / "stream.html", with_blocks(stream))
    return folder


class Visit:
    def __init__(self, browser: Any, file: Path, view: str, size: dict[str, int], **options: Any) -> None:
        self.context = browser.new_context(viewport=size, **options)
        self.page, self.said = self.context.new_page(), []  # type: ignore[var-annotated]
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.goto(f"{file.as_uri()}#{view}")

    @property
    def label(self) -> str:
        return str(self.page.locator(".said").inner_text())

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


# How many colours each canvas of the open view has: one is an empty canvas.
COLOURS = """() => [...document.querySelectorAll('.view:not([hidden]) canvas')].map(canvas => {
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data, found = new Set();
  for (let i = 0; i < data.length; i += 4) found.add(data.slice(i, i + 4).join());
  return found.size;
})"""


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_draws_and_fits(browser: Any, where: Path, view: str, size: dict[str, int]) -> None:
    scheme = "dark" if size is PHONE else "light"
    with Visit(browser, where / "two.html", view, size, color_scheme=scheme) as visit:
        page = visit.page
        assert page.locator(f"#view-{view} .notice").is_visible()
        assert all(count > 1 for count in page.evaluate(COLOURS))
        assert page.evaluate("() => document.documentElement.scrollWidth") <= size["width"]
        first = visit.label
        page.keyboard.press("Home")
        before = visit.label
        page.keyboard.press("End")
        assert visit.label != before, "the last step is not the first"
        assert first
        assert visit.said == []


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_moves_by_itself_and_a_step_is_drawn_in_time(browser: Any, where: Path, view: str) -> None:
    with Visit(browser, where / "two.html", view, DESKTOP, reduced_motion="reduce") as visit:
        page, first = visit.page, visit.label
        page.wait_for_timeout(300)
        assert visit.label == first, "it plays when it is asked to"
        page.keyboard.press("Home")
        spent = page.evaluate("""() => {
          const key = name => dispatchEvent(new KeyboardEvent('keydown', { key: name })), all = [];
          key('ArrowRight');
          for (let n = 0; n < 20; n += 1) {
            const start = performance.now();
            key('ArrowRight');
            all.push(performance.now() - start);
          }
          return all.sort((a, b) => a - b)[5];  // others use this machine too
        }""")  # fmt: skip
        assert spent < 33, f"{spent:.1f} ms of scripting for a step"


def test_the_page_computes_occupancy_as_python_does(browser: Any, where: Path) -> None:
    random = np.random.default_rng(7)
    cases, expected = [], []
    for gpu in gpus():
        for _ in range(60):
            use = {
                "threads": int(random.integers(1, gpu.threads_per_block + 64)),
                "registers": int(random.integers(0, gpu.registers_per_thread + 3)),
                "static_smem": int(random.integers(0, 49_153)),
                "dynamic_smem": int(random.choice([0, random.integers(0, gpu.smem_per_block + 2_000)])),
                "barriers": int(random.integers(0, 17)),
            }
            found = occupancy(gpu, **use)
            cases.append((gpu.name, use))
            limits = [[limit.resource, limit.blocks] for limit in found.limits]
            expected.append([found.blocks_per_sm, found.warps_per_sm, found.fraction, list(found.limiters), limits])
    with Visit(browser, where / "two.html", "occupancy", DESKTOP) as visit:
        got = visit.page.evaluate("""cases => {
          const known = JSON.parse(document.getElementById('data').textContent).views.occupancy.gpus;
          return cases.map(([name, use]) => {
            const o = GS.occupancy(known.find(gpu => gpu.name === name), use);
            return [o.blocks, o.warps, o.fraction, o.limiters, o.limits.map(([name, blocks]) => [name, blocks])];
          });
        }""", cases)  # fmt: skip
    wrong = [(case, one, other) for case, one, other in zip(cases, got, expected, strict=True) if one != other]
    assert wrong == []
    assert len({one[0] for one in got}) > 10, "many levels are among them"
    assert any(one[0] == 0 for one in got), "also blocks that do not fit"


def test_the_sliders_and_the_gpu_change_the_answer_at_once(browser: Any, where: Path) -> None:
    with Visit(browser, where / "two.html", "occupancy", DESKTOP) as visit:
        page = visit.page
        read = "#view-occupancy .readout"
        page.locator("#occupancy-registers-per-thread").fill("255")
        assert visit.label.startswith("255 registers on H200")
        assert "limited by registers" in page.locator(read).inner_text()
        before = page.locator(read).inner_text()
        page.select_option("#view-occupancy select", "T4")
        assert page.locator(read).inner_text().startswith("T4: ")
        assert page.locator(read).inner_text() != before
        page.locator("#occupancy-threads-per-block").fill("1024")
        assert "a block does not fit" in page.locator(read).inner_text()
        page.click("#view-occupancy button:has-text('As the kernel is')")
        assert "does not fit" not in page.locator(read).inner_text()


def test_waves_are_full_but_the_last_and_clusters_start_together(browser: Any, where: Path) -> None:
    with Visit(browser, where / "two.html", "grid", DESKTOP) as visit:
        for count, cluster, sms, held in (
            (64, 1, 25, 1),
            (100, 1, 7, 3),
            (96, 4, 10, 2),
            (5, 1, 132, 2),
            (40, 8, 3, 1),
        ):
            placed = visit.page.evaluate("a => GS.placedBlocks(...a)", [count, cluster, sms, held])
            room = max(1, sms * held // cluster) * cluster
            waves = [[p for p in placed if p["wave"] == w] for w in range(-(-count // room))]
            assert [len(wave) for wave in waves[:-1]] == [room] * (len(waves) - 1)
            for wave in waves:
                places = [(p["sm"], p["slot"]) for p in wave]
                assert len(set(places)) == len(places), "one block in a place"
                if room <= sms * held:
                    assert all(p["sm"] < sms and p["slot"] < held for p in wave)
            for group in range(count // cluster):
                together = {p["wave"] for p in placed[group * cluster : (group + 1) * cluster]}
                assert len(together) == 1, "a cluster runs in one wave"


def test_the_page_counts_distinct_bytes_as_python_does(browser: Any, where: Path) -> None:
    random = np.random.default_rng(11)
    cases = []
    for _ in range(40):
        edges = np.sort(random.integers(0, 200, (random.integers(0, 12), 2, 2)), axis=2)
        cases.append([[int(v) for v in box.reshape(-1)] for box in edges])
    with Visit(browser, where / "two.html", "grid", DESKTOP) as visit:
        got = visit.page.evaluate("cases => cases.map(GS.unionArea)", cases)
    assert got == [union_area(case) for case in cases]


def test_split_k_is_seen_as_blocks_that_share_a_tile(browser: Any, where: Path) -> None:
    with Visit(browser, where / "split.html", "grid", DESKTOP) as visit:
        visit.page.keyboard.press("Home")
        assert "k 0–63; 4 blocks share this tile" in visit.label
        visit.page.keyboard.press("ArrowRight")
        assert "k 64–127; 4 blocks share this tile" in visit.label


def test_stream_k_is_seen_as_parts_of_several_tiles(browser: Any, where: Path) -> None:
    with Visit(browser, where / "stream.html", "grid", DESKTOP) as visit:
        seen = []
        for _ in range(6):
            seen.append(visit.label)
            visit.page.keyboard.press("ArrowRight")
        assert any("k 192–255; 2 blocks share this tile; part 1 of 2 of this block" in label for label in seen)
        assert any("k 0–127; 2 blocks share this tile; part 2 of 2 of this block" in label for label in seen)


def test_a_line_and_what_it_became_are_highlighted_together(browser: Any, where: Path) -> None:
    trace = recorded("vectorized").trace
    line = next(each.line for each in trace.counts if each.ptx.startswith("bar.sync"))
    with Visit(browser, where / "two.html", "code", DESKTOP) as visit:
        page = visit.page
        page.locator(f"[data-list=source] [data-at='0:{line}']").click()
        assert visit.label.startswith(f"{trace.file}:{line}: ")
        ptx = page.locator("[data-list=ptx] .match").all_inner_texts()
        assert any("bar.sync" in text for text in ptx)
        sass = page.locator("[data-list=sass] .match").all_inner_texts()
        assert any("BAR.SYNC" in text for text in sass)
        shown = page.evaluate("() => [...document.querySelectorAll('[data-list=sass] .match')].map(n => +n.dataset.at)")
        data = page.evaluate("() => JSON.parse(document.getElementById('data').textContent).views.code")
        mine = {(p[1], p[2]) for p in data["ptx"] if (0, line) in ((p[1], p[2]), (p[3], p[4]))}
        assert shown == [at for at, one in enumerate(data["sass"]) if (one[1], one[2]) in mine]
        page.locator("[data-list=ptx]").focus()
        page.keyboard.press("ArrowDown")
        assert page.locator("[data-list=ptx] .match").count() > 0
        assert page.locator("[data-list=source] .match").count() > 0
        page.locator("[data-list=sass] [data-at]").nth(5).click()
        assert ":" in visit.label


def test_differences_of_two_kernels_are_marked(browser: Any, where: Path) -> None:
    with Visit(browser, where / "two.html", "compare", DESKTOP) as visit:
        rows = visit.page.locator(".compare-table tbody tr")
        marked = visit.page.locator(".compare-table tr.differs").all_inner_texts()
        assert any("bank conflicts" in text and "better" in text for text in marked)
        assert 0 < len(marked) < rows.count()


@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop", "phone"])
def test_axe_finds_nothing(browser: Any, where: Path, size: dict[str, int], scheme: str) -> None:
    package = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    axe = Path(package.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
    with Visit(browser, where / "two.html", "grid", size, color_scheme=scheme) as visit:
        visit.page.evaluate(axe)
        for view in VIEWS:
            visit.page.click(f"#tab-{view}")
            # The listings of code have thousands of rows that are alike: a few stand for all.
            visit.page.evaluate("""() => document.querySelectorAll('.listing').forEach(list =>
              [...list.children].slice(60).forEach(row => row.remove()))""")  # fmt: skip
            found = visit.page.evaluate("() => axe.run({resultTypes: ['violations']})")
            faults = [(one["id"], node["html"][:120]) for one in found["violations"] for node in one["nodes"]]
            assert faults == [], view
