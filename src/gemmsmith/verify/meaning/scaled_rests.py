"""Products whose rows are words of four bytes, where K is no multiple of four: the last word of a row has a rest.

What follows the rest in its word may be anything, unless a comment says that it is zero. Only a kernel with code for it
is tried.
"""

from __future__ import annotations

import re

import numpy as np

from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.shapes import Shape
from gemmsmith.verify.host.launched_products import launched
from gemmsmith.verify.launch_check import check_launch
from gemmsmith.verify.meaning.launch_trial import LaunchTrial
from gemmsmith.verify.meaning.scaled_data import converted
from gemmsmith.verify.meaning.scaled_meanings import Meaning, result
from gemmsmith.verify.meaning.scaled_runner import Runner

RESTS = "words with a rest of K"
_DEPTHS = (1, 2, 3, 5, 6, 7, 33, 66, 131)
_ZEROS = re.compile(r"\bpad\w*[^.;]*\bzero|\bzero\w*[^.;]*\bpad", re.IGNORECASE)
_SIDES = (17, 19)  # rows and columns


def rest_depths(spec: KernelSpec, meaning: Meaning) -> tuple[int, ...]:
    """Values of K with a rest, for a kernel that has code for it, whose rows of A and columns of B are words."""
    a, b = meaning.stored
    along_k = (a.words, b.words) == (4, 4) and (a.transposed, b.transposed) == (False, True)
    return _DEPTHS if along_k and not meaning.groups and _has_code(spec) else ()


def _has_code(spec: KernelSpec) -> bool:
    """Whether the kernel computes how many numbers its last word has."""
    text = str(getattr(getattr(spec.geometry, "facts", None), "reached", ""))
    name = re.escape(spec.signature.named("K"))
    computed = rf"\b{name}\s*(?:%\s*4|&\s*3)\b(?!\s*\)*\s*[=!]=)|\b{name}\s*-\s*4\s*\*"  # not as asserts have it
    return re.search(computed, text) is not None


def rest_trial(runner: Runner, meaning: Meaning, depth: int) -> LaunchTrial | None:
    """One launch with K numbers in each row, and other ones behind them in the last word; None where host code has no
    launch for this K."""
    m, n = _SIDES
    shape, whole = (m, n, depth), (m, n, -(-depth // 4) * 4)
    asked = launched(runner.spec, Problem(*shape))
    if asked.excluded is not None or asked.unread is not None:
        return None
    data = runner.data(whole, meaning, {name: each.count(whole) for name, each in meaning.sharing.items()})
    cut = {**data, **{runner.named(role): _without_rest(data[runner.named(role)], whole, depth) for role in "AB"}}
    expected = converted(result(meaning, runner.parameters, cut, whole), meaning.output.kind)
    given = cut if _ZEROS.search(runner.spec.code) else data
    launch = runner.launch(shape, runner.with_depth(given, shape), expected.reshape(-1))
    found = check_launch(launch, runner.device, timeout=runner.timeout, cache=runner.cache, most=1)
    return LaunchTrial(RESTS, shape, found)


def _without_rest(array: np.ndarray, whole: Shape, depth: int) -> np.ndarray:
    """The same with zeros behind the first numbers of each line."""
    lines = np.array(array).view(np.uint8).reshape(-1, whole[2])
    lines[:, depth:] = 0
    return lines.reshape(-1).view(array.dtype)
