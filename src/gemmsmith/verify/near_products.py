"""Kernels that give no product and may not be meant to: a product with its sign changed, distances, multiples, sums
that repeat one term. They are refused; to call them wrong would be a false verdict."""

from __future__ import annotations

from collections.abc import Callable

from gemmsmith.call.binding import CompileFn
from gemmsmith.errors import SignatureError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.signature import Signature
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.run.device import Device
from gemmsmith.shapes import Shape
from gemmsmith.verify.early_hazards import has_hazards
from gemmsmith.verify.launch_probe import LaunchProbe
from gemmsmith.verify.linearity import FEW_TERMS, not_a_sum_of_products
from gemmsmith.verify.product_evidence import says_product
from gemmsmith.verify.readings import find_readings

OTHER_FUNCTION = "run one launch with --args … and --expect FILE.py:FUNCTION, which computes what is expected"


def refuse_near_product(
    open_device: Callable[[], Device], spec: KernelSpec, config: Config, meant: Signature, shape: Shape,
    compile_fn: CompileFn,
) -> None:  # fmt: skip
    """Raise for such a kernel, whose parameters are read as ``meant``. A name that says product is believed, but for
    the sign: ``sum -= a * b`` is written on purpose."""
    subtracts = find_readings(open_device(), spec, config, meant, shape, compile_fn, negated=True)
    if subtracts and not meant.has("alpha"):
        adds = subtracts[0].signature.accumulates or meant.has("beta")
        what = f"{meant.named('C')} - A·B" if adds else "-A·B"
        raise SignatureError(f"{meant.entry} gives {what}, as a product with alpha = -1, which is not judged",
                             f"if A·B is meant, its sign is wrong; if not, {OTHER_FUNCTION}")  # fmt: skip
    if says_product(meant.entry):
        return
    other = not_a_sum_of_products(LaunchProbe(open_device, spec, config, compile_fn), meant, shape)
    if other and other != FEW_TERMS and not has_hazards(open_device(), spec, config, shape, compile_fn):
        raise SignatureError(f"{meant.entry} gives no product under any meaning that was tried: {other}",
                             OTHER_FUNCTION)  # fmt: skip
