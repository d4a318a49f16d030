"""Which kernel, in which configuration, for a problem on a GPU: what ``gemm`` and ``matmul`` ask.

    the user's own tuning ─► the shipped table ─► the cost model ─► the default rung

The first that knows an answer gives it. Answers are kept, so that asking again costs a look into a dictionary.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from gemmsmith.choose import simt, tuning_file
from gemmsmith.choose import split as parts
from gemmsmith.choose import table as shipped
from gemmsmith.choose.candidates import Candidate, hopper_specs, ranked
from gemmsmith.choose.cost import Chip, Constants, chip_of, predicted_seconds, shape_of, tiles_of, with_memory_of
from gemmsmith.choose.default import SIMULATOR, default_rung
from gemmsmith.choose.determinism import is_deterministic
from gemmsmith.choose.key import (
    Addresses,
    ShapeKey,
    alignment,
    alignment_if_tight,
    contiguous,
    fastest,
    is_16_bit,
    is_fastest,
    shape_key,
    unaligned,
)
from gemmsmith.choose.precision import DEFAULT
from gemmsmith.choose.table import Entry, Table
from gemmsmith.errors import ConfigError, UsageError
from gemmsmith.gpus import GPU, gpu_of_device, gpus
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem

HOPPER = 90
_OLDEST = 80  # taken for a GPU of which nothing is known
# A configuration that won elsewhere is preferred to the model's favourite if it is predicted this close to it: the
# model errs by more, and what won was measured. It may be predicted further off, up to so far, where it was at a shape
# near this one as well.
_CLOSE, _FURTHEST = 1.02, 1.30
_DOUBTED = 1.2  # a shipped winner that the model expects to be beaten by this much: tuning tried too few
_LEAST = (16, 16, 1, 1)  # a tile has no fewer rows or columns, so that shapes below are one to it; of K and batch
_MOST_REMEMBERED = 65_536


@dataclass(frozen=True)
class Choice:
    """A kernel and its configuration.

    source  'tuned': the user's own tuning of this shape; 'shipped': the package's table;
            'model': the cost model; 'default': the ladder's order of preference; 'given': changed by the caller
    """

    spec: KernelSpec
    config: Config
    source: str


_CHOICES: dict[tuple[object, ...], Choice] = {}
_forgotten = 0


def choose(
    problem: Problem,
    gpu: str | None = None,
    addresses: Addresses | None = None,
    *,
    sms: int = 0,
    arch: str = "",
    precision: str = DEFAULT,
    deterministic: bool = True,
) -> Choice:
    """What to run for ``problem`` on the GPU that the driver calls ``gpu``; None is the simulator.

    ``addresses`` of A, B and C say how they are aligned; without them they are taken to be aligned as fresh memory is.
    ``sms`` and ``arch`` ('sm_90') are the driver's: with them, a Hopper GPU that is in no table has a model as well.
    What is chosen keeps ``precision`` (choose/precision.py) and, where ``deterministic``, the same bits every time.
    """
    p = problem
    rows = alignment(p, addresses) if gpu is not None else 0
    asked = (gpu, p.m, p.n, p.k, p.batch, p.trans_a, p.trans_b, rows, p.dtype.name, p.out_dtype.name, p.bias,
             p.activation, p.copies, p.alpha == 0, sms, arch, precision, deterministic)  # fmt: skip
    known = _CHOICES.get(asked)
    if known is None:
        known = _chosen(problem, gpu, addresses, sms, arch, precision, deterministic)
        if len(_CHOICES) >= _MOST_REMEMBERED:
            _CHOICES.clear()
        _CHOICES[asked] = known
    return known


def forget() -> None:
    """Ask tables and tuning file again: for a process that has just tuned."""
    global _forgotten
    _forgotten += 1
    for cached in (shipped.shipped_tables, tuning_file.tuned, hopper_model, _constants, _own_values, _misjudged):
        cached.cache_clear()
    _CHOICES.clear()


def times_forgotten() -> int:
    """What was chosen while this was another number may be chosen otherwise now."""
    return _forgotten


def _chosen(problem: Problem, gpu: str | None, addresses: Addresses | None, sms: int, arch: str, precision: str,
            deterministic: bool) -> Choice:  # fmt: skip
    # Nothing to multiply is nothing to describe with a tensor map either.
    if gpu is not None and is_16_bit(problem) and problem.flops and precision == DEFAULT:
        found = _on_hopper(problem, gpu, addresses, sms, arch, deterministic)
        if found is not None:
            return found
    spec = default_rung(problem, precision, SIMULATOR if gpu is None else _architecture(gpu, sms, arch))
    known = known_gpu(gpu, sms) if gpu is not None else None
    if gpu is not None and (count := sms or (known.sms if known else 0)):
        operands = unaligned(problem, addresses) & 3
        config = (simt.configuration_for(problem, count, operands) if spec.name == simt.NAME
                  else parts.configuration_for(spec, problem, count))  # fmt: skip
        if config is not None:
            return Choice(spec, config, "model")
    return Choice(spec, spec.config(), "default")


def _architecture(gpu: str, sms: int, arch: str) -> int:
    """90 for 'sm_90', or of the GPU that the driver calls ``gpu``."""
    if arch:
        return int(arch.removeprefix("sm_").rstrip("af"))
    known = known_gpu(gpu, sms)
    return known.arch if known is not None else _OLDEST


def _on_hopper(problem: Problem, gpu: str, addresses: Addresses | None, sms: int, arch: str,
               deterministic: bool) -> Choice | None:  # fmt: skip
    model = hopper_model(gpu, sms, arch)
    specs = {spec.name: spec for spec in hopper_specs() if spec.takes(problem)}
    if model is None or not specs:
        return None
    known = (("tuned", _tuned(gpu)), ("shipped", _shipped(gpu)))
    candidates = ranked(problem, *model, within=_FURTHEST, addresses=addresses, deterministic=deterministic)
    if not candidates:
        return None
    # What was tuned was tuned on contiguous matrices; others may need a copy first, or be fetched more slowly, which
    # changes what is best.
    if alignment(problem, addresses) == alignment_if_tight(problem):
        key = shape_key(problem)
        for source, entries in known:
            for entry in (entries.get(each) for each in ((key,) if deterministic else (fastest(key), key))):
                spec = specs.get(entry.kernel) if entry is not None else None
                if entry is None or spec is None:
                    continue
                if source == "shipped" and entry.us > candidates[0].seconds * 1e6 * _DOUBTED:
                    continue
                config = _legal(spec, entry)
                if config is not None and (is_deterministic(spec, config) or not deterministic):
                    return Choice(spec, config, source)
    best = _proven(candidates, shape_key(problem), {**dict(known[1][1]), **known[0][1]}, model) or candidates[0]
    return Choice(best.spec, best.config, "model")


def _legal(spec: KernelSpec, entry: Entry) -> Config | None:
    """The entry's configuration, unless this version of the kernel no longer takes it."""
    try:
        return spec.config(dict(entry.config))
    except ConfigError as error:
        warnings.warn(f"a tuned configuration is not used: {error.message}", RuntimeWarning, stacklevel=2)
        return None


def _proven(candidates: list[Candidate], key: ShapeKey, entries: Mapping[ShapeKey, Entry],
            model: tuple[Chip, Constants]) -> Candidate | None:  # fmt: skip
    """Of candidates predicted close to the best, the one that won at the nearest tuned shape; None where none has.

    Besides being measured, it is likely to be compiled already. The nearer the tuned shape, the more of what the model
    misjudged the winner by there is allowed for here; where it misjudged nothing, a prediction here counts as it is.
    """
    close = {_identity(c.spec.name, c.config.values): c for c in candidates}
    near = []
    for other, entry in entries.items():
        winner, distance = close.get(_identity(entry.kernel, entry.config)), _distance(key, other)
        if winner is None:
            continue
        allowed = _CLOSE
        # Not from another layout, whose candidates would have to be listed first: a second or so.
        if winner.seconds > candidates[0].seconds * allowed and other.layout == key.layout and distance < 1:
            allowed *= _misjudged(winner.config, other, *model) ** (1 - distance)
        if winner.seconds <= candidates[0].seconds * allowed:
            near.append((distance, winner))
    return min(near, key=lambda pair: (pair[0], pair[1].seconds))[1] if near else None


@cache
def _misjudged(winner: Config, tuned: ShapeKey, chip: Chip, constants: Constants) -> float:
    """How many times as slow as its favourite the model takes what won to be, at the shape where it won."""
    problem = contiguous(tuned)
    favourite = ranked(problem, chip, constants, within=1.0, deterministic=not is_fastest(tuned))
    if not favourite:
        return 1.0
    tiles = tiles_of([dict(winner)])
    seconds = float(predicted_seconds(shape_of(problem, alignment(problem)), tiles, chip, constants)[0])
    return max(1.0, seconds / favourite[0].seconds)


def _identity(kernel: str, config: tuple[tuple[str, int], ...]) -> tuple[object, ...]:
    """The same for the same values in another order, or without those that are the kernel's own: a table may be older
    than a parameter."""
    return kernel, *sorted(set(config) - _own_values().get(kernel, frozenset()))


@cache
def _own_values() -> Mapping[str, frozenset[tuple[str, int]]]:
    return {spec.name: frozenset((p.name, p.default) for p in spec.parameters) for spec in hopper_specs()}


def _distance(one: ShapeKey, other: ShapeKey) -> float:
    """How many times apart the extents are, as a sum of logarithms; other layouts and output types are further away."""
    pairs = ((one.m, other.m), (one.n, other.n), (one.k, other.k), (one.batch, other.batch))
    apart = sum(abs(math.log2(max(a, least) / max(b, least))) for (a, b), least in zip(pairs, _LEAST, strict=True))
    return apart + (one.layout != other.layout) / 4 + (one.out_bytes != other.out_bytes) / 2


@cache
def hopper_model(gpu: str, sms: int, arch: str) -> tuple[Chip, Constants] | None:
    """What predictions for a GPU with compute capability 9.0 are made with; None for all others."""
    known = known_gpu(gpu, sms)
    if known is not None and known.arch == HOPPER:
        return chip_of(known, sms), _constants(known)
    if arch == f"sm_{HOPPER}" and sms:
        like = next(g for g in gpus() if g.arch == HOPPER)
        return chip_of(like, sms), _constants(like)
    return None


def known_gpu(name: str, sms: int = 0) -> GPU | None:
    """The GPU in the table that the driver calls ``name``; with 0 for ``sms``, whatever number it has."""
    return next((g for g in gpus() if gpu_of_device(name, sms or g.sms) == g), None)


@cache
def _constants(gpu: GPU) -> Constants:
    """From the shipped table of that GPU; from another Hopper GPU's with this one's memory; the estimates otherwise."""
    for other in _tables():
        if known_gpu(other.gpu) == gpu:
            return other.model.constants
    for other in _tables():
        made_on = known_gpu(other.gpu)
        if made_on is not None and made_on.arch == HOPPER and made_on.name == "H200":
            return with_memory_of(other.model.constants, gpu)
    return with_memory_of(Constants(), gpu)


def _tuned(gpu: str) -> Mapping[ShapeKey, Entry]:
    return tuning_file.tuned(tuning_file.default_path(), gpu)


def _shipped(gpu: str) -> Mapping[ShapeKey, Entry]:
    """The table made on a GPU of the same kind."""
    kind = known_gpu(gpu)
    for made in _tables():
        if made.gpu == gpu or (kind is not None and known_gpu(made.gpu) == kind):
            return made.entries
    return {}


def _tables() -> tuple[Table, ...]:
    try:
        return shipped.shipped_tables()
    except (UsageError, OSError) as error:
        warnings.warn(f"the shipped table is not used: {error}", RuntimeWarning, stacklevel=2)
        return ()
