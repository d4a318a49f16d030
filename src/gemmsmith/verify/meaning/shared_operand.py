"""Whether products may share an operand: one for all, as the tokens of a layer share its weights, or in groups, as the
heads of attention share keys and values."""

from __future__ import annotations

import re

from gemmsmith.kernel.role_names import is_weight, words
from gemmsmith.kernel.signature import Signature
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.userfile.launches.product_axis import product_number
from gemmsmith.verify.code.kernel_body import kernel_body

_BATCHED = frozenset(("bmm", "batched", "batchedgemm", "batchmatmul"))
_GROUPS = frozenset(("kv", "nkv", "gqa", "mqa", "group", "groups", "grouped", "rep", "repeat", "shared"))


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


def shares_in_groups(spec: KernelSpec) -> bool:
    """Whether a kernel says that several products in a row have one operand: by a name (kv_heads, group), or by a
    number that it divides the product's number by (``blockIdx.z / 4``)."""
    body = kernel_body(spec)
    named = {word for name in re.findall(r"[A-Za-z_]\w*", f"{spec.signature.entry} {body}") for word in words(name)}
    number = "|".join(map(re.escape, product_number(body)))
    return bool(_GROUPS & named) or re.search(rf"(?<![\w.])(?:{number})\s*(?:/|>>)\s*\d", body) is not None
