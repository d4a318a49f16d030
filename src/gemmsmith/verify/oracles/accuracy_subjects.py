"""What an accuracy study compares: kernels as callers of the package get them, and baselines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.call.api import gemm, plan
from gemmsmith.call.binding import check_simulated
from gemmsmith.choose.choice import Choice
from gemmsmith.choose.determinism import is_deterministic
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import MissingDeviceError, UnsupportedError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import check_accepts
from gemmsmith.problem import FP32, TF32, DType, Problem, arithmetic_of
from gemmsmith.run.baselines import baseline_named
from gemmsmith.run.baselines.supported import supported
from gemmsmith.run.baselines.torch_views import usable_torch
from gemmsmith.run.contender import OperandSet
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.run.memory import GuardedMatrix
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.harness import refusal
from gemmsmith.verify.oracles.accuracy_study import Subject

Array = NDArray[Any]
Product = Callable[[Array, Array], Array]
AUTO = "auto"  # the name of the kernel that matmul chooses


def kernel_subject(spec: KernelSpec, config: Config, problem: Problem, device: SimDevice | CudaDevice,
                   arithmetic: Callable[[CompiledKernel], str], is_baseline: bool = False) -> Subject:  # fmt: skip
    """A kernel in the problem's type; raises where the kernel does not take it or the device cannot run it.

    A baseline that lacks the type is given the same numbers in fp32, which holds them exactly. ``arithmetic`` says what
    a compiled user's file multiplies in: it may use tensor cores whatever its types are.
    """
    kind = problem.dtype
    if is_baseline and kind not in spec.dtypes:
        kind = FP32
    problem = problem.with_(dtype=kind)
    layout = "NN" if "NN" in spec.layouts else spec.layouts[0]
    check_accepts(spec, problem.with_(trans_a=layout[0] == "T", trans_b=layout[1] == "T"))
    if why := refusal(spec.signature, problem):
        raise UnsupportedError(why)
    check_simulated(device, spec, problem)
    name = spec.name if spec.is_rung else spec.source.name
    multiplies_in = arithmetic_of(kind, spec.tensor_cores)
    if not spec.is_rung:
        multiplies_in = arithmetic(compile_for(spec, config, problem, device.arch))
    asked = {"kernel": spec, "config": config, "deterministic": is_deterministic(spec, config)}
    return Subject(name, multiplies_in, _product(device, asked, kind, layout), is_baseline)


def auto_subject(
    problem: Problem, choice: Choice, device: SimDevice | CudaDevice, precision: str, deterministic: bool
) -> Subject:
    """The kernel that is chosen where the caller names none; ``choice`` is the one for ``problem``."""
    asked = {"precision": precision, "deterministic": deterministic}
    multiplies_in = arithmetic_of(problem.dtype, choice.spec.tensor_cores)
    return Subject(AUTO, multiplies_in, _product(device, asked, problem.dtype, "NN"))


def _product(device: SimDevice | CudaDevice, asked: Mapping[str, Any], kind: DType, layout: str) -> Product:
    """``asked`` are arguments of ``gemm``."""
    return _on_gpu(asked, kind, layout) if device.kind == "gpu" else _simulated(asked, kind, layout)


def _simulated(asked: Mapping[str, Any], kind: DType, layout: str) -> Product:
    """On the simulator, with one plan per shape: parsing a kernel takes longer than a small product."""
    ready: dict[tuple[int, ...], Any] = {}

    def product(a: Array, b: Array) -> Array:
        left, right = (_laid_out(_widened(x, kind), letter) for x, letter in zip((a, b), layout, strict=True))
        key = (*left.shape, *right.shape)
        if key not in ready:
            ready[key] = plan(left, right, dtype=kind.name, **asked)
        return np.array(ready[key](left, right))  # a copy: a plan's output is overwritten by the next product

    return product


def _on_gpu(asked: Mapping[str, Any], kind: DType, layout: str) -> Product:
    torch = usable_torch()
    if torch is None:
        raise MissingDeviceError("errors on a GPU need torch, for operands", "pip install torch, or --device sim")

    def tensor(values: Array, letter: str) -> Any:
        stored = np.ascontiguousarray(values.T if letter == "T" else values)
        if stored.dtype.name == "bfloat16":  # torch does not know NumPy's bfloat16: its bits are passed as integers
            made = torch.from_numpy(stored.view(np.int16)).view(torch.bfloat16).cuda()
        else:
            made = torch.from_numpy(stored).cuda()
        return made.T if letter == "T" else made

    def product(a: Array, b: Array) -> Array:
        left, right = (tensor(_widened(x, kind), letter) for x, letter in zip((a, b), layout, strict=True))
        out = torch.full((left.shape[0], right.shape[1]), float("nan"), dtype=torch.float32, device=left.device)
        gemm(left, right, dtype=kind.name, out=out, **asked)
        torch.cuda.synchronize()
        result: Array = out.cpu().numpy()
        return result

    return product


def _widened(values: Array, kind: DType) -> Array:
    return values if values.dtype == kind.numpy else values.astype(kind.numpy)


def _laid_out(values: Array, letter: str) -> Array:
    return np.asfortranarray(values) if letter == "T" else np.ascontiguousarray(values)


def baseline_subject(name: str, problem: Problem, device: CudaDevice, stream: int) -> Subject:
    """A library on the GPU; raises where it does not take the problem. TF32 is in the name, never called fp32.

    All products share one stream: libraries keep a workspace for every stream they have seen.
    """
    kind = FP32 if problem.dtype == TF32 else problem.dtype
    tf32 = name.endswith("-tf32")
    supported(name, problem.with_(dtype=kind), tf32=tf32)
    contender = baseline_named(name)

    def product(a: Array, b: Array) -> Array:
        asked = Problem(a.shape[0], b.shape[1], a.shape[1], kind)
        with ExitStack() as held:
            held.enter_context(device.current())
            places = [
                held.enter_context(GuardedMatrix.create(device, shape, shape[1], dtype, name=letter))
                for letter, shape, dtype in (("A", a.shape, kind), ("B", b.shape, kind), ("C", asked.c_shape, FP32))
            ]
            places[0].upload(a)
            places[1].upload(b)
            device.synchronize()
            held.callback(contender.close)
            contender.prepare(asked, [OperandSet(*(place.address for place in places))], stream)(0)
            device.synchronize()
            result: Array = places[2].download()
            return result

    return Subject(name, "tf32" if tf32 else kind.name, product, is_baseline=True)
