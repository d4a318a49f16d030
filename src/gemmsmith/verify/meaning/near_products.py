"""Kernels that give no product and may not be meant to: a product with its sign changed, distances, multiples, sums
that repeat one term. They are refused; to call them wrong would be a false verdict."""

from __future__ import annotations

from gemmsmith.errors import SignatureError
from gemmsmith.verify.meaning.early_hazards import has_hazards
from gemmsmith.verify.meaning.linearity import FEW_TERMS, not_a_sum_of_products
from gemmsmith.verify.meaning.meaning_search import MeaningSearch, fitting
from gemmsmith.verify.meaning.product_evidence import says_product
from gemmsmith.verify.meaning.readings import find_readings

OTHER_FUNCTION = "compare one launch with your own answer: --grid … --block … --args … --expect FILE.py:FUNCTION"


def refuse_near_product(search: MeaningSearch) -> None:
    """Raise for such a kernel, which has its likeliest meaning. A name that says product is believed, but for the sign:
    ``sum -= a * b`` is written on purpose."""
    if search.rejected or not search.whole or search.spec.declared_signature:
        return
    spec, meant, shape = search.spec, search.first, fitting(search.first, search.shapes[0])
    launched = (search.open_device(), spec, search.config, meant, shape, search.compile_fn)
    if not meant.has("alpha") and (subtracts := find_readings(*launched, negated=True)):
        adds = subtracts[0].signature.accumulates or meant.has("beta")
        what = f"{meant.named('C')} - A·B" if adds else "-A·B"
        raise SignatureError(f"{meant.entry} computes {what}; check judges A·B and C + A·B only",
                             f"if you meant A·B, the sign is wrong; otherwise {OTHER_FUNCTION}")  # fmt: skip
    if says_product(search.own.entry):
        return
    other = not_a_sum_of_products(search.probe(), meant, shape)
    if other and other != FEW_TERMS and not has_hazards(
        search.open_device(), spec, search.config, search.shapes[0], search.compile_fn
    ):  # fmt: skip
        raise SignatureError(f"{meant.entry} computes A·B under no reading of its parameters that was tried: {other}",
                             OTHER_FUNCTION)  # fmt: skip
