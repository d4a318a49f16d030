"""Take the README's picture of the page with Chromium.

    python benchmarks/page_screenshot.py climb.html docs/climb.png      (after make climb; needs Chromium)

The picture shows the page from the top to the end of its first chart, in light colours, at 880 pixels width so that
the file stays small.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

WIDTH, HEIGHT, SCALE = 1280, 1900, 0.6875  # of the window in CSS pixels, and of the picture


def take(page: Path, picture: Path) -> None:
    from playwright.sync_api import sync_playwright

    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        sys.exit("no chromium, chromium-browser or google-chrome is installed")
    with sync_playwright() as started:
        running = started.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        shown = running.new_page(viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=SCALE,
                                 color_scheme="light")  # fmt: skip
        shown.goto(page.resolve().as_uri())
        chart = shown.locator("#ladder figure svg:visible").first.bounding_box()
        bottom = chart["y"] + chart["height"] + 16 if chart else HEIGHT
        shown.screenshot(path=str(picture), clip={"x": 0, "y": 0, "width": WIDTH, "height": min(bottom, HEIGHT)})
        running.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("picture", type=Path)
    options = parser.parse_args()
    take(options.page, options.picture)
    print(f"{options.picture}: {options.picture.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
