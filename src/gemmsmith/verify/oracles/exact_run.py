"""Run a kernel once with images in a prime field beside its values, and compare every output with the product.

A, B, C, the bias and the scalars have random elements of the field. An output that is the right polynomial of these
equals the expected element; one that is another polynomial of degree d does so with a probability of at most d/p.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmsmith.call import binding
from gemmsmith.call.launch_plan import LaunchPlan
from gemmsmith.fills import Array, operands
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.element_types import BF16_CODE
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.problem import BF16, FP16, FP32, FP64, INT8, INT32, TF32, UINT8, DType, Problem
from gemmsmith.sim.device import Loads
from gemmsmith.sim.proof import field
from gemmsmith.sim.proof.device import ProofDevice, smallest_unit
from gemmsmith.sim.proof.images import DEGREE_SHIFT, Cells, Image, Kind, tag_of
from gemmsmith.sim.proof.session import NoProof, Session, is_lost
from gemmsmith.sim.proof.trees import Trees
from gemmsmith.sim.schedule import schedule_named
from gemmsmith.verify.guarded_run import run_guarded
from gemmsmith.verify.old_c import old_c_of

_KINDS = {FP32.name: Kind.F32, TF32.name: Kind.F32, FP16.name: Kind.F16, BF16.name: Kind.BF16, FP64.name: Kind.F64,
          INT8.name: Kind.S8, UINT8.name: Kind.U8, INT32.name: Kind.I32}  # fmt: skip
_SCALARS = {"f": Kind.F32, "d": Kind.F64, "e": Kind.F16, BF16_CODE: Kind.BF16, "i": Kind.I32, "I": Kind.I32,
            "q": Kind.I64, "Q": Kind.I64}  # fmt: skip
NOT_THE_PRODUCT = "outputs are not the product"
_MOST_DEGREE = 255  # which a tag can hold


@dataclass(frozen=True)
class ExactRun:
    """What one run showed.

    trees      the fingerprint of each output's tree
    degree     the highest degree of an output as a polynomial of the inputs
    adds_c     whether beta·C is in the outputs
    compared   source lines that compare alpha or beta with something
    atomics    how many atomic additions one place got at most
    signed     whether anything was subtracted
    """

    problem: Problem
    trees: Array
    degree: int
    adds_c: bool
    compared: tuple[str, ...]
    atomics: int
    signed: bool


def run_exactly(
    spec: KernelSpec, config: Config, problem: Problem, compile_fn: binding.CompileFn, arch: str, trees: Trees,
    *, schedule: str = "lockstep", timeout: float = 60.0, loads: Loads | None = None,
) -> ExactRun:  # fmt: skip
    """Run ``spec`` and raise ``NoProof`` unless every output is the product. ``loads``: kernels parsed before."""
    code = binding.aligned_code(spec, config, problem)
    compiled = compile_fn(spec, *code, arch)
    itemsize = min(problem.dtype.itemsize, problem.out_dtype.itemsize)
    session = Session(smallest_unit(compiled.ptx, itemsize), trees)
    device = ProofDevice(session, arch, schedule_named(schedule, late_copies=False), timeout)
    device.loads = device.loads if loads is None else loads
    inputs = _Inputs(spec, problem, trees)
    found: list[Image] = []

    def start(plan: LaunchPlan, addresses: Addresses, workspace: int) -> None:
        steps = binding.load_plan(device, plan, compile_fn).steps(addresses, workspace)
        device.scalars, device.entry = inputs.scalars, steps[-1].loaded.entry.name
        inputs.place(device, addresses, old_c_of(plan))
        for step in steps:
            device.launch(step.loaded, step.launch)
        found.append(inputs.outputs(device, addresses))

    data = operands(problem, "integers", 0)
    run_guarded(device, spec, config, problem, data, (0, 0, 0), 0, "set", start)
    adds_c = inputs.check(found[0])
    degree = int((found[0].tag >> DEGREE_SHIFT).max(initial=0))
    if degree >= _MOST_DEGREE:
        raise NoProof("outputs are polynomials of too high a degree")
    updates = [int(counts.max(initial=0)) for counts in session.updates.values()]
    return ExactRun(problem, found[0].tree, degree, adds_c,
                    tuple(session.compared), max([session.most_shared, *updates]), session.signed)  # fmt: skip


class _Inputs:
    """Random images of the operands and scalars, and what the outputs must be."""

    def __init__(self, spec: KernelSpec, problem: Problem, trees: Trees) -> None:
        self.spec, self.problem, self.trees = spec, problem, trees
        self.random = np.random.default_rng()
        m, n, k = problem.m, problem.n, problem.k
        self.a = self._matrix("A", (m, k), problem.dtype, np.broadcast_to(np.arange(k), (m, k)))
        self.b = self._matrix("B", (k, n), problem.dtype, np.broadcast_to(np.arange(k)[:, None], (k, n)))
        self.c = self._matrix("C", (m, n), problem.out_dtype)
        self.bias = self._matrix("bias", (m if problem.bias == "row" else n,), spec.bias_dtype(problem))
        self.scalars: dict[int, Image] = {}
        self.alpha, self.beta = (field.image(np.array(x)) for x in (problem.alpha, problem.beta))
        for number, argument in enumerate(spec.signature.arguments):
            if argument.role in ("alpha", "beta") and "." in argument.name:
                raise NoProof(f"{argument.name} is a member of a struct")
            if argument.role in ("alpha", "beta") and argument.code in _SCALARS:
                element = field.random_elements(self.random, (1,))
                tag = np.full(1, tag_of(_SCALARS[argument.code], data=False))
                leaf = np.array([trees.leaf(argument.role)], np.uint64)
                self.scalars[spec.signature.place(number)] = Image(tag, element, leaf)
                setattr(self, argument.role, element)
        if not spec.signature.has("beta"):  # C is added as it is, or not at all
            self.beta = np.array(1, np.uint64)

    def _matrix(self, name: str, shape: tuple[int, ...], dtype: DType, along_k: Array | None = None) -> Image:
        kind = _KINDS[dtype.name]
        tree = np.full(shape, self.trees.leaf(name), np.uint64) if along_k is None else self.trees.leaves(name, along_k)
        return Image(np.full(shape, tag_of(kind, data=True)), field.random_elements(self.random, shape), tree)

    def place(self, device: ProofDevice, addresses: Addresses, old_c: int) -> None:
        """Put the images where the operands are."""
        problem = self.problem
        c_is = old_c or (addresses.bias if self.spec.signature.has("D") else addresses.c)
        a, b = (image if not transposed else _transposed(image)
                for image, transposed in ((self.a, problem.trans_a), (self.b, problem.trans_b)))  # fmt: skip
        _put(device, addresses.a, a, problem.lda, problem.dtype)
        _put(device, addresses.b, b, problem.ldb, problem.dtype)
        _put(device, c_is, self.c, problem.ldc, problem.out_dtype)
        if problem.bias:
            _put(device, addresses.bias, _row(self.bias), self.bias.tag.size, self.spec.bias_dtype(problem))

    def outputs(self, device: ProofDevice, addresses: Addresses) -> Image:
        problem, session = self.problem, device.session
        base, offset = _located(device, addresses.c)
        at = offset + _offsets((problem.m, problem.n), problem.ldc, problem.out_dtype)
        image, good = session.numbers(session.memory.get(base), at, _KINDS[problem.out_dtype.name])
        if is_lost(image.tag).any():
            raise NoProof(session.reason_of(image))
        if not good.all():
            row, column = (int(x[0]) for x in np.nonzero(~good))
            raise NoProof(f"output ({row}, {column}) does not depend on the matrices, or is of another type")
        return image

    def check(self, found: Image) -> bool:
        """Whether beta·C is added; raises unless every output is what it must be."""
        problem = self.problem
        total = field.multiply(field.product(self.a.element, self.b.element), self.alpha)
        if problem.bias:
            bias = self.bias.element
            total = field.add(total, bias[:, None] if problem.bias == "row" else bias[None])
        given = field.canonical(found.element)
        with_c = field.canonical(field.add(total, field.multiply(self.c.element, self.beta)))
        without = field.canonical(total)
        if problem.beta == 0 and (given == without).all():
            return False
        wrong = given != with_c
        if not wrong.any():
            return True
        if problem.beta == 0 and np.count_nonzero(given != without) < np.count_nonzero(wrong):
            wrong = given != without
        row, column = (int(x[0]) for x in np.nonzero(wrong))
        raise NoProof(
            f"in exact arithmetic {np.count_nonzero(wrong):,} of {given.size:,} {NOT_THE_PRODUCT}; the first is in row "
            f"{row}, column {column}"
        )


def _transposed(image: Image) -> Image:
    return Image(image.tag.T, image.element.T, image.tree.T)


def _row(image: Image) -> Image:
    return Image(image.tag[None], image.element[None], image.tree[None])


def _offsets(shape: tuple[int, ...], ld: int, dtype: DType) -> Array:
    rows, columns = np.arange(shape[0])[:, None], np.arange(shape[1])[None]
    offsets: Array = (rows * ld + columns) * dtype.itemsize
    return offsets


def _located(device: ProofDevice, address: int) -> tuple[int, int]:
    located = device.memory.locate(address, 1)
    assert located is not None, "the matrix was allocated"
    return located[0], address - located[0]


def _put(device: ProofDevice, address: int, image: Image, ld: int, dtype: DType) -> None:
    if image.tag.size == 0:
        return
    base, offset = _located(device, address)
    size = device.memory.data(base).size
    cells = device.session.memory.setdefault(base, Cells(-(-size // device.session.unit)))
    device.session.place(cells, offset + _offsets(image.tag.shape, ld, dtype), image)
