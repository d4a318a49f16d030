"""Which kernel, in which configuration, for a problem on a GPU: the answer that ``gemm`` and ``matmul`` use.

    candidates (candidates.py) ─► info: predicted time (cost.py) ─► compare (here)

For 16-bit products on Hopper, the first of these that has an answer gives it:

    the user's own tuning of the shape ─► the shipped table ─► a winner with other rows and as many tiles (rows.py) ─►
    with few rows: the fastest way to read (narrow.py) ─► the nearest measured winner ─► the fastest prediction

Winners of other shapes are the user's own; those of the shipped table serve others only where no networks correct the
model, which were fitted to their times and know more.

Everything else gets the default rung (default.py), configured by a model of its own where it has one (simt.py,
split.py); fp32 products on Hopper get the one that splits an operand in registers (registers.py), or with up to eight
rows or columns the one for vectors (vectors.py), where it is predicted to be faster. Answers are cached: asking again
is a dictionary lookup.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gemmsmith.choose import candidates as menus
from gemmsmith.choose import narrow, registers, simt, split, vectors
from gemmsmith.choose.candidates import Candidate, ranked
from gemmsmith.choose.constants import Constants
from gemmsmith.choose.cost_data import vector_costs
from gemmsmith.choose.default import HOPPER, SIMULATOR, default_rung
from gemmsmith.choose.determinism import is_deterministic
from gemmsmith.choose.fp32_candidates import fp32_kernels
from gemmsmith.choose.key import (
    Addresses,
    ShapeKey,
    alignment,
    alignment_if_tight,
    fastest,
    is_16_bit,
    shape_key,
    unaligned,
)
from gemmsmith.choose.models import Winners, forget_models, hopper_model, known_gpu, shipped_shapes, tuned_shapes
from gemmsmith.choose.precision import DEFAULT
from gemmsmith.choose.rows import least_seconds, winner_of_rows
from gemmsmith.choose.table import Entry
from gemmsmith.choose.waves import Chip
from gemmsmith.choose.winners import FURTHEST, forget_winners, legal_config, nearest_winner
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import FP32, Problem

_DOUBTED = 1.2  # a shipped winner that the model expects to beat by this factor is not used: tuning tried too few
_SAVED_SINCE = 0.7  # µs that current kernels take less than those that most shipped winners were timed with
_EQUAL = 1.005
_FEWEST, _FEW_UNKNOWN = 16, 1.3
_MOST_OF_FEW, _NEAR_OF_FEW = 24, 1.25  # candidates that read a large operand: how many, and how near the fastest
_ANY_UNALIGNED = 7  # of ``key.alignment``: A, B, C
_FEW, _LEAST_WIDTH = 64, 48  # 48 columns for 8 rows won at 8x32368x3144
_MOST_REMEMBERED = 65_536
_UNKNOWN_GPU_ARCH = 80  # a GPU without name and architecture


STAND_IN = "stand-in"


@dataclass(frozen=True)
class Choice:
    """A kernel and its configuration.

    source  'tuned': the user's own tuning of this shape; 'shipped': the package's table; 'rows': either of them, with
            another number of rows;
            'model': the cost model; 'default': the ladder's order of preference; 'given': changed by the caller;
            'stand-in': for this call, until the best is compiled
    """

    spec: KernelSpec
    config: Config
    source: str


@dataclass(frozen=True)
class Request:
    """What is asked for. ``gpu`` is the driver's name, None for the simulator; ``addresses`` of A, B and C."""

    problem: Problem
    gpu: str | None
    addresses: Addresses | None
    sms: int
    arch: str
    precision: str
    deterministic: bool


@dataclass
class _Cache:
    """Answers by what they depend on. ``generation`` counts how often they were discarded."""

    choices: dict[tuple[object, ...], Choice] = field(default_factory=dict)
    generation: int = 0


_CACHE = _Cache()
ANSWERS = _CACHE  # for readers of ``generation``: asking a function costs as much as the lookup it guards


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

    ``addresses`` of A, B and C give their alignment; without them they are taken to be aligned allocations. ``sms`` and
    ``arch`` ('sm_90') are the driver's: with them, a Hopper GPU that is not in the table has a model as well. The
    choice keeps ``precision`` (choose/precision.py) and, with ``deterministic``, gives bit-reproducible results.
    """
    p = problem = problem.folded  # what the kernel will see
    aligned = alignment(p, addresses) if gpu is not None else 0
    key = (gpu, p.m, p.n, p.k, p.batch, p.trans_a, p.trans_b, aligned, p.dtype.name, p.out_dtype.name, p.bias,
           p.activation, p.copies, p.alpha == 0, sms, arch, precision, deterministic)  # fmt: skip
    known = _CACHE.choices.get(key)
    if known is None:
        known = _choose(Request(problem, gpu, addresses, sms, arch, precision, deterministic))
        if len(_CACHE.choices) >= _MOST_REMEMBERED:
            _CACHE.choices.clear()
        _CACHE.choices[key] = known
    return known


def _choose(request: Request) -> Choice:
    problem = request.problem
    # A tensor map cannot describe an empty matrix.
    if request.gpu is not None and is_16_bit(problem) and problem.flops and request.precision == DEFAULT:
        found = _on_hopper(request, request.gpu)
        if found is not None:
            return found
    if request.gpu is not None and problem.dtype == FP32 and problem.flops:
        tuned = _tuned_fp32(request, request.gpu)
        if tuned is not None:
            return tuned
    spec = default_rung(problem, request.precision, _architecture(request))
    config = _modelled_config(spec, request)
    if config is None:
        return Choice(spec, spec.config(), "default")
    return _faster_fp32(request, spec) or Choice(spec, config, "model")


def _on_hopper(request: Request, gpu: str) -> Choice | None:
    """Candidates → predicted times → the best; None where there is no model or no kernel."""
    model = hopper_model(gpu, request.sms, request.arch)
    if model is None or not any(spec.takes(request.problem) for spec in menus.hopper_specs()):
        return None
    candidates = ranked(request.problem, *model, within=FURTHEST, addresses=request.addresses,
                        deterministic=request.deterministic)  # fmt: skip
    if not candidates:
        return None
    known = _winner_here(request, gpu, candidates) or _winner_of_rows(request, gpu, candidates, model)
    if known is not None:
        return known
    candidates = _without_padding(candidates, request.problem)
    few = _of_few_rows(request, model)
    if few is not None and few.seconds <= candidates[0].seconds:
        return Choice(few.spec, few.config, "model")
    tables = _tables_for_others(request, gpu, model[1])
    winners = {key: entry for table in reversed(tables) for key, entry in table.items()}
    near = nearest_winner(candidates, shape_key(request.problem), winners, model)
    best = near or _first(request, candidates, model[1])
    return Choice(best.spec, best.config, "model")


def _of_few_rows(request: Request, model: tuple[Chip, Constants]) -> Candidate | None:
    """The fastest way to read the large operand where one has few rows or columns; its seconds can be compared with
    those of other candidates.

    narrow.py knows which tiles give every SM the same share. Which of them is fastest is asked of the general model,
    whose corrections saw such tiles, where it has any; without, it predicts a third less than was measured up to 16
    rows (2x10096x2448, 8x7712x432).
    """
    problem, aligned = request.problem, alignment(request.problem, request.addresses)
    if not _corrected_by_networks(request, model[1]):
        few = narrow.streaming(problem, model[0], aligned)
        trust = _FEW_UNKNOWN if min(problem.m, problem.n) <= _FEWEST else 1.0
        return None if few is None else replace(few, seconds=few.seconds / trust)
    found = narrow.fastest(problem, model[0], aligned, _MOST_OF_FEW)
    found = [each for each in found if each.seconds <= found[0].seconds * _NEAR_OF_FEW]
    return min(menus.predicted(problem, found, *model, request.addresses), key=lambda each: each.seconds, default=None)


def _corrected_by_networks(request: Request, constants: Constants) -> bool:
    """Whether networks correct the model here: they were fitted to aligned problems (cost.py)."""
    return constants.networks is not None and not alignment(request.problem, request.addresses) & _ANY_UNALIGNED


def _without_padding(candidates: list[Candidate], problem: Problem) -> list[Candidate]:
    """Of few rows or columns, tiles that hold them without much padding, where there are such. The trees saw few
    others, and underrate them: 96 columns for the 8 rows of 8x5528x1488 have 0.59 of cuBLAS."""

    def padded(config: Config) -> bool:
        extent = problem.m if config.get("SWAP", 0) else problem.n  # along wgmma's columns
        return extent <= _FEW and config["BN"] > max(_LEAST_WIDTH, -(-extent // 16) * 16)

    if min(problem.m, problem.n) > _FEW:
        return candidates
    return [each for each in candidates if not padded(each.config)] or candidates


def _first(request: Request, candidates: list[Candidate], constants: Constants) -> Candidate:
    """The fastest prediction. Trees correct in steps: where they do so alone, the one that L2 sends the least."""
    if constants.trees is None or _corrected_by_networks(request, constants):
        return candidates[0]
    return least_sent(candidates)


def least_sent(candidates: list[Candidate]) -> Candidate:
    """Of predictions within 0.5 % of the fastest, the one that L2 sends the least."""
    near = [each for each in candidates if each.seconds <= candidates[0].seconds * _EQUAL]
    return min(near, key=lambda each: (_sent_by_l2(each.config), each.seconds))


def _sent_by_l2(config: Config) -> float:
    """Rows and columns that L2 sends for each output of a tile."""
    rows, cols = config["BM"] / config.get("CLUSTER_N", 1), config["BN"] / config.get("CLUSTER_M", 1)
    return (rows + cols) / (config["BM"] * config["BN"])


def _winner_here(request: Request, gpu: str, candidates: list[Candidate]) -> Choice | None:
    """The user's or the shipped winner of this shape.

    Shapes were tuned with contiguous matrices. Operands that are aligned otherwise may need a copy, or load more
    slowly, which changes what is best.
    """
    key = shape_key(request.problem)
    for source, entries in (("tuned", tuned_shapes(gpu)), ("shipped", shipped_shapes(gpu))):
        for entry in (entries.get(each) for each in _keys(request, key)):
            found = _usable(request, entry, source, candidates)
            if found is not None:
                return found
    return None


def _winner_of_rows(request: Request, gpu: str, candidates: list[Candidate], model: tuple[Chip, Constants]
                    ) -> Choice | None:  # fmt: skip
    """A winner with another number of rows and as many tiles."""
    for entries in _tables_for_others(request, gpu, model[1]):
        for key in _keys(request, shape_key(request.problem)):
            entry = winner_of_rows(key, entries, lambda each: least_seconds(each, *model))
            found = _usable(request, entry, "rows", candidates)
            if found is not None:
                return found
    return None


def _tables_for_others(request: Request, gpu: str, constants: Constants) -> tuple[Winners, ...]:
    """Tables whose entries serve other shapes as well, the first of which count first.

    Not the shipped one where networks correct the model: they were fitted to its times and to those of slower
    configurations. At 53 products that were kept out of the fit, entries of other rows lose 1.9 % and the model 1.3 %;
    at 522 others, the nearest winner loses 1.5 % and the model 1.3 % (benchmarks/kept_out.py).
    """
    own = tuned_shapes(gpu)
    return (own,) if _corrected_by_networks(request, constants) else (own, shipped_shapes(gpu))


def _keys(request: Request, key: ShapeKey) -> tuple[ShapeKey, ...]:
    """Of entries that the request may use, the fastest first."""
    return (key,) if request.deterministic else (fastest(key), key)


def _usable(request: Request, entry: Entry | None, source: str, candidates: list[Candidate]) -> Choice | None:
    """The entry as a choice; None where operands are aligned otherwise than those that were timed or one is shared by a
    batch, where the model expects much more of another configuration, or where this version cannot run it."""
    problem, deterministic = request.problem, request.deterministic
    if entry is None or alignment(problem, request.addresses) != alignment_if_tight(problem):
        return None
    if set(problem.copies) != {problem.batch}:
        return None
    if source != "tuned" and entry.us > candidates[0].seconds * 1e6 * _DOUBTED + _SAVED_SINCE:
        return None
    spec = next((each for each in menus.hopper_specs() if each.name == entry.kernel and each.takes(problem)), None)
    config = legal_config(spec, entry) if spec is not None else None
    if spec is None or config is None or (deterministic and not is_deterministic(spec, config)):
        return None
    return Choice(spec, config, source)


def _tuned_fp32(request: Request, gpu: str) -> Choice | None:
    """The user's own tuning of an fp32 product with this precision."""
    problem, precision = request.problem, request.precision
    entry = tuned_shapes(gpu).get(shape_key(problem, precision))
    if entry is None or alignment(problem, request.addresses) != alignment_if_tight(problem):
        return None
    spec = fp32_kernels(precision, problem).get(entry.kernel)
    config = legal_config(spec, entry) if spec is not None else None
    return Choice(spec, config, "tuned") if spec is not None and config is not None else None


def _modelled_config(spec: KernelSpec, request: Request) -> Config | None:
    """The configuration of a default rung that has a model; None for the others, and without a number of SMs."""
    sms = _sms(request)
    if not sms:
        return None
    if spec.name == simt.NAME:
        where = unaligned(request.problem, request.addresses) & 3
        return simt.configuration_for(request.problem, sms, where, _architecture(request) == HOPPER)
    return split.configuration_for(spec, request.problem, sms)


def _faster_fp32(request: Request, spec: KernelSpec) -> Choice | None:
    """The kernel for vectors, or the one that splits an operand in registers, where it is predicted to be faster than
    ``spec``."""
    if request.problem.dtype != FP32 or _architecture(request) != HOPPER:
        return None
    sms, where = _sms(request), unaligned(request.problem, request.addresses) & 3
    if spec.name == simt.NAME:
        seconds = simt.fastest(request.problem, sms, where, clusters=True)[1]
    else:
        seconds = split.seconds(request.problem, spec.arithmetic)
    name, config = spec.name, None
    in_registers = registers.fastest(request.problem, request.precision, sms, where)
    if in_registers is not None and in_registers[1] < seconds:
        name, (config, seconds) = registers.NAME, in_registers
    timed = vector_costs().chosen and vectors.is_timed(request.problem)
    by_vectors = vectors.fastest(request.problem, sms, where) if timed else None
    if by_vectors is not None and by_vectors[1] < vectors.of_another(name, seconds):
        name, config = vectors.NAME, by_vectors[0]
    return None if config is None else Choice(rung_named(name), config, "model")


def _sms(request: Request) -> int:
    """0 if it is not known."""
    known = known_gpu(request.gpu, request.sms) if request.gpu is not None else None
    return request.sms or (known.sms if known else 0)


def _architecture(request: Request) -> int:
    """90 for 'sm_90', or that of the GPU that the driver names."""
    if request.gpu is None:
        return SIMULATOR
    if request.arch:
        return int(request.arch.removeprefix("sm_").rstrip("af"))
    known = known_gpu(request.gpu, request.sms)
    return known.arch if known is not None else _UNKNOWN_GPU_ARCH


def forget() -> None:
    """Discard cached answers and read tables and tuning file again: after tuning in this process."""
    forget_models()
    forget_winners()
    least_seconds.cache_clear()
    _CACHE.choices.clear()
    _CACHE.generation += 1
