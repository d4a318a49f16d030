"""Of a kernel that makes several products in one launch: which matrices they share, and where the matrices lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from itertools import product

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.problem import Problem
from gemmsmith.run.device import Device
from gemmsmith.shapes import Shape
from gemmsmith.userfile.kernels.grouped_heads import groups_heads
from gemmsmith.userfile.launches.user_launch import UserLaunch
from gemmsmith.verify.harness import verify_launch
from gemmsmith.verify.meaning.product_places import ProductPlaces, product_places
from gemmsmith.verify.meaning.settled import Settled
from gemmsmith.verify.meaning.shared_operand import shares, shares_in_groups

_OWN_ARGUMENTS = "gemmsmith.launch runs it with arguments of your own"


def with_products_of_the_grid(settled: Settled) -> Settled:
    """Of a kernel whose grid alone tells how many products it makes, and whose extents were found by trying: they are
    a batch. Before the extents are known, the grid is not understood."""
    spec, launch = settled.spec, settled.spec.geometry
    if spec.batched or settled.reading is None or spec.declared_signature or not isinstance(launch, UserLaunch):
        return settled
    if launch.site is None or not launch.counts_products or launch.passed_on:
        return settled
    counter, launch = launch.site.counter, copy(launch)
    launch.products = counter
    signature = replace(spec.signature, shared=launch.shared_operand)
    launch.notes += (launch.shared_note(),) if launch.shared_operand else ()
    return replace(settled, spec=replace(spec, batched=True, geometry=launch, known_signature=signature))


def with_shared_operand(
    open_device: Callable[[], Device], settled: Settled, config: Config, base: Problem, compiled: CompiledKernel
) -> Settled:
    """Of a kernel for batches without strides: the reading in which all products share B, or A, or have a bias each,
    where each having its own, and one bias, gives no product. A stride of its own, or what host code allocates, may
    contradict it."""
    spec, signature = settled.spec, settled.spec.signature
    strides = any(signature.has(f"stride{role}") or signature.takes_table(role) for role in "AB")
    told = signature.has("batch") or getattr(spec.geometry, "counts_products", False)
    if spec.is_rung or not spec.batched or strides or settled.reading is None or not told:
        return settled
    operands = (signature.shared,) if signature.shared else ("", "B", "A")
    for own_bias, shared in product(_biases(settled), operands):
        read = replace(signature, shared=shared, own_bias=own_bias)
        verdict = verify_launch(open_device(), spec, config, read.batch_of(base, 3), fill="integers", mode="exact",
                                c="set", compile_fn=lambda *_: compiled)  # fmt: skip
        if verdict.trusted and (shared == signature.shared or shares(spec, read)):
            lines = [f"one {read.named(shared)} is used for all products of the batch"] * (shared != signature.shared)
            lines += ["each product of the batch has a bias of its own"] * own_bias
            return replace(settled, spec=replace(spec, known_signature=read), lines=(*settled.lines, *lines))
    return settled


def _biases(settled: Settled) -> tuple[bool, ...]:
    """Whether each product of a batch has a bias of its own, as far as host code does not allocate one alone."""
    extent = getattr(settled.spec.geometry, "bias_extent", None)
    signature = settled.spec.signature
    has_bias = settled.reading is not None and settled.reading.bias
    own = signature.transposed() if signature.column_major else signature
    return (False, True) if has_bias and not (extent is not None and extent(own)) else (False,)


def with_places(
    open_device: Callable[[], Device], settled: Settled, config: Config, shapes: Sequence[Shape],
    compiled: CompiledKernel,
) -> tuple[Settled, ProductPlaces | None]:  # fmt: skip
    """Of a kernel that may make one product for each head: one product alone, where the matrices of several do not
    follow one another, and where they lie. Raises for products of parts of larger tensors (q, k and v in one), and for
    products that share matrices without a word of that."""
    spec, counter = settled.spec, getattr(settled.spec.geometry, "products", "")
    if counter and settled.reading is not None and settled.reading.bias:
        _refuse_other_groups(settled)
        return settled, None
    if not counter:
        return settled, None
    unread = settled.reading is None
    for layout in ("NN", "NT", "TN", "TT") if unread else spec.layouts:
        read = spec.read_as(spec.signature, layout)
        found = product_places(open_device, read, config, shapes, lambda *_: compiled)
        if found is not None and found.apart and not found.wrong:
            raise UsageError(
                f"{spec.signature.entry} makes `{counter}` products, and the matrices of {' and '.join(found.apart)} "
                "have gaps between them that no product uses: views into a larger tensor are not judged",
                _OWN_ARGUMENTS,
            )
        if found is not None and found.groups and not found.wrong and not shares_in_groups(spec):
            name, count = found.groups[0]
            raise UsageError(
                f"{spec.signature.entry} makes `{counter}` products, and every {count} consecutive ones share one "
                f"matrix of {name}: no name (kv_heads, group) and no division (blockIdx.z / {count}) says that this is "
                "meant",
                _OWN_ARGUMENTS,
            )
        if found is not None and not unread and (found.wrong or found.beside or found.groups):
            lines = settled.lines
            if found.beside:
                names = " and ".join(found.beside)
                lines += (f"it makes `{counter}` products, whose rows are interleaved in {names}",)
            lines += tuple(f"it makes `{counter}` products; every {count} consecutive ones share one matrix of {name}"
                           for name, count in found.groups)  # fmt: skip
            return replace(settled, spec=replace(spec, batched=False), lines=lines), found
    if not unread:
        _refuse_other_groups(settled)
    return settled, None


def _refuse_other_groups(settled: Settled) -> None:
    """Raise for a kernel with a number that groups heads, of which no groups were found: batches have odd numbers of
    products, which the number leaves ungrouped."""
    spec = settled.spec
    counters = getattr(spec.geometry, "products", "").split(" * ")  # a batch and its heads have like roles
    names = [arg.name for arg in spec.signature.arguments if groups_heads(arg.role) and arg.name not in counters]
    if names:
        raise UsageError(
            f"{spec.signature.entry} takes `{names[0]}`, which groups products, but no consecutive ones were seen to "
            "share a matrix: which of them should is not known",
            _OWN_ARGUMENTS,
        )
