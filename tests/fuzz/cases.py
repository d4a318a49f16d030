"""One kernel to check: a recipe and at most one fault; from a seed, or from seeds.toml."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from generated.draw import draw, obstacle
from generated.kernel import Generated, generate
from generated.recipe import Recipe
from generated.sites import Fault

SEEDS = Path(__file__).parent / "seeds.toml"


@dataclass(frozen=True)
class Case:
    """``seed`` tells where the recipe came from; -1 for one that was written down."""

    recipe: Recipe
    fault: str = ""
    seed: int = -1

    def generated(self) -> Generated:
        return generate(self.recipe, self.fault)

    @property
    def name(self) -> str:
        """For file names and tests."""
        words = "".join(c if c.isalnum() else "_" for c in self.fault or "correct")
        return f"{self.seed if self.seed >= 0 else 'written'}-{words}"

    def toml(self) -> str:
        """A line for seeds.toml. The recipe is written down, since a seed means another kernel once draw.py changes."""
        choices = ", ".join(f"{name} = {_toml(value)}" for name, value in self.recipe.differences().items())
        fault = f', fault = "{self.fault}"' if self.fault else ""
        return f"{{ recipe = {{ {choices} }}{fault} }}"


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def cases_of(seed: int, mutants: int) -> Iterator[Case]:
    """The correct kernel of a seed, and some of its mutants: of each kind of fault at most one."""
    recipe = draw(seed)
    yield Case(recipe, "", seed)
    rng = random.Random(f"faults of {seed}")
    kinds: dict[str, list[Fault]] = {}
    for fault in generate(recipe).faults:
        kinds.setdefault(fault.kind, []).append(fault)
    for kind in rng.sample(sorted(kinds), min(mutants, len(kinds))):
        yield Case(recipe, rng.choice(kinds[kind]).name, seed)


def listed(part: str) -> list[Case]:
    """The cases of one part of seeds.toml."""
    found = tomllib.loads(SEEDS.read_text(encoding="utf-8"))[part]
    cases = [case for seed in found.get("seeds", []) for case in cases_of(seed, found["mutants"])]
    return cases + [_written(entry) for entry in found.get("cases", [])]


def _written(entry: dict[str, object]) -> Case:
    choices = entry["recipe"]
    if not isinstance(choices, dict):
        raise ValueError("a recipe is a table of choices")
    recipe = Recipe(**choices)
    if why := obstacle(recipe):
        raise ValueError(f"{choices}: {why}")
    return Case(recipe, str(entry.get("fault", "")))
