"""Whether the products of a batch may share one operand, as the tokens of a layer share its weights."""

from __future__ import annotations

from gemmsmith.kernel.role_names import is_weight, words
from gemmsmith.kernel.signature import Signature
from gemmsmith.kernel.spec import KernelSpec

_BATCHED = frozenset(("bmm", "batched", "batchedgemm", "batchmatmul"))


def shares(spec: KernelSpec, signature: Signature) -> bool:
    """Whether names and host code allow that one matrix is meant for all products of a batch.

    What host code allocates decides; then a name: weights are shared, the operands of a batched product are not.
    """
    own = signature.transposed() if signature.column_major else signature
    copies = getattr(spec.geometry, "copies", None)
    allocated = copies(own, own.shared) if copies is not None else ""
    if allocated:
        return bool(allocated == "one")
    return is_weight(own.named(own.shared)) or not _BATCHED & set(words(own.entry))
