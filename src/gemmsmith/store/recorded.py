"""Results that were recorded elsewhere and come with the package: what an H200 did, for those who have none."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from gemmsmith.store.results import Run
from gemmsmith.store.run_file import run_from_json

# Copies of files in benchmarks/results/; a test holds them equal.
FILES = ("h200_ladder.json",)


@cache
def recorded_runs() -> tuple[Run, ...]:
    """Every recorded run of the package."""
    folder = files("gemmsmith").joinpath("store", "data")
    texts = (folder.joinpath(name).read_text(encoding="utf-8") for name in FILES)
    return tuple(run_from_json(data) for text in texts for data in json.loads(text)["runs"])
