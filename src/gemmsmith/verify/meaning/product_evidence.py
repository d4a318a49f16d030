"""Whether a user's kernel whose result is no product was meant to compute one.

A vector addition takes A, B, C and N like many products. To call it a wrong product would be a false verdict, so where
the evidence is thin the kernel is refused, and not judged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from gemmsmith.errors import SignatureError
from gemmsmith.kernel.exchanged_arguments import exchanges_scalars
from gemmsmith.kernel.signature import Signature, is_formula
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import DType
from gemmsmith.verify.code.instruction_start import START
from gemmsmith.verify.verdict import Verdict

_NAME = re.compile(r"gemm|mm(?![a-z])|mat|mul|dense|linear", re.I)  # no hamming, no summary
_SCALES = re.compile(r"scale|score|att|mean|norm|dist|cos|corr|cov|pair|mask|causal", re.I)
# ``gemm_bias_act`` and ``biasAct`` as well, but no ``factor``.
_ACTIVATION = re.compile(r"(?i:relu|gelu|silu|swish|sigmoid|softmax|activation)|(?<![A-Za-z])[Aa]ct(?![A-Za-z])|"
                         r"(?<=[a-z])Act(?![a-z])")  # fmt: skip
_CONVOLUTION = re.compile(r"conv(?!er)", re.I)
_COMPLEX_TYPES = frozenset(("float2", "double2"))
# The real part of a product, or a function of cuComplex.h.
_COMPLEX = re.compile(r"\.x\s*\*\s*[\w.\[\] *+]+?\.x\s*-|\bcu(?:C(?:mul|fma)|Conj)f?\b")
# ``sum = (sum + a[i] * b[j]) % prime`` and ``sum += a[i] * b[j] % prime``; remainders in indices are others
_MODULAR = re.compile(r"\b(\w+)\s*=\s*\(\s*\1\s*\+[^;]*\][^;]*\*[^;]*\]\s*\)\s*%|"
                      r"\+=[^;]*\]\s*\*\s*[\w()\s]*\w\s*\[[^;\[\]]*\]\s*\)*\s*%")  # fmt: skip
# Products of other kinds of matrices, or of numbers that are stored in another form.
_OTHER_KIND = {
    "one triangle of C": re.compile(r"(?:^|_)(?:tri|triu|tril|trmm|syrk)(?:_|\d|$)|(?:upper|lower)tri|triang", re.I),
    "masked results": re.compile(r"causal|masked|(?:^|_)mask(?:_|$)", re.I),
    "numbers of fewer bits": re.compile(r"(?:fp|int|q)4(?:_|$)|w4(?:a|_|$)|fp[68]|e[45]m[23]|dequant|nf4|gptq", re.I),
}
_FEWEST_WRITTEN = 0.25  # of the outputs: a product with a wrong grid still writes whole blocks
_FLOAT = re.compile(rf"{START}(?:(?:fma|mul|mad)(?:\.\w+)*\.(?:f16|bf16|f16x2|bf16x2|f32|f64)|w?mma\.|"
                    r"wgmma\.mma)", re.M)  # fmt: skip
_TWO_DIMENSIONAL = re.compile(r"%(?:ctaid|tid)\.y")
_INTEGER = re.compile(rf"{START}(?:mul|mad|dp4a|dp2a|w?mma|wgmma)\b", re.M)


def doubt(spec: KernelSpec, ptx: str, verdict: Verdict, touches: Callable[[], bool] = lambda: False) -> str:
    """Why the kernel may not be a product at all; empty if it must be one. ``verdict`` is on whole tiles, and fails.
    ``touches``: whether it reads and writes what a product does."""
    signature = spec.signature
    if spec.is_rung or spec.declared_signature or (signature.accumulates and not signature.has("D")):
        return ""
    if not multiplies(ptx, spec.dtypes[0]):
        return "its compiled code has no multiplication"
    named = None if signature.activation else _ACTIVATION.search(signature.entry)
    if named is not None and not math.isnan(verdict.rho):
        said = named[0].lower()
        return f"its name says that it applies {'an activation' if said == 'act' else said}, which is not judged"
    if why := _other_use(spec):
        return why
    names = [signature.entry, *(arg.name for arg in signature.arguments if arg.code == "P")]
    for what, words in _OTHER_KIND.items():
        if any(words.search(_snake(name)) for name in names) and not math.isnan(verdict.rho):
            return f"its names say that it is a product of {what}, which is not judged"
    if _CONVOLUTION.search(signature.entry) and not touches():
        return "its name says that it is a convolution, which is not judged"
    extents = ({arg.role for arg in signature.arguments} | set(signature.tied)) & {"M", "N", "K"}
    if extents == {"M", "K"}:
        return "it has no parameter for the number of columns, as if it multiplied a matrix and a vector"
    computed = ", ".join(arg.name for arg in signature.arguments if is_formula(arg.role))
    computed = "" if exchanges_scalars(signature) else computed
    if computed and verdict.wrong <= verdict.unwritten > 0 and not verdict.faulted and not verdict.hazards:
        return (f"it leaves {verdict.unwritten} of the {verdict.total} outputs of {verdict.problem} unwritten: with "
                f"the {computed} that its launch passes it may compute only a part of C")  # fmt: skip
    faulted = math.isnan(verdict.rho) and not verdict.wrong
    written = verdict.total - verdict.unwritten
    is_said = says_product(signature.entry) and getattr(spec.geometry, "site", None) is not None
    if not faulted and not is_said and len(extents) < 3 and written <= _FEWEST_WRITTEN * verdict.total:
        return f"it writes {written} of the {verdict.total} outputs of {verdict.problem}"
    if faulted and not signature.fixed and not _looks_like_one(signature, ptx):
        given = ", ".join(arg.name for arg in signature.arguments if arg.role in ("M", "N", "K")) or "no extent"
        return f"nothing says that it is one: not its name, not its parameters ({given}), not its thread indices"
    return ""


def _other_use(spec: KernelSpec) -> str:
    """What the kernel's text shows it to do with its matrices beside a product; empty: nothing."""
    signature = spec.signature
    body = str(getattr(getattr(spec.geometry, "facts", None), "reached", ""))
    output, addend = signature.named(signature.output), signature.named("C")
    if re.search(rf"\b{re.escape(output)}\s*\[[^;=]*\]\s*-=", body):
        return f"it subtracts from {output}, as a step of a factorization does, which is not judged"
    if {signature.ctype(role) for role in ("A", "B")} <= _COMPLEX_TYPES and _COMPLEX.search(body):
        return "its numbers are complex, and complex products are not judged"
    factor = rf"\*\s*{re.escape(addend)}\s*\[|\b{re.escape(addend)}\s*\[[^;\]]*\]\s*\*"
    if signature.has("D") and not signature.has("beta") and re.search(factor, body):
        return f"it also multiplies by {addend}, which is not judged"
    return ""


def says_product(entry: str) -> bool:
    """Whether a kernel's name says that it is a product, and nothing that is done to its results."""
    return _NAME.search(_snake(entry)) is not None and _SCALES.search(entry) is None


def _snake(name: str) -> str:
    """``upperTriGemm`` as upper_Tri_Gemm."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)


def _looks_like_one(signature: Signature, ptx: str) -> bool:
    """By three extents, by its name, or by threads and blocks in two dimensions."""
    named = {"M", "N", "K"} <= {arg.role for arg in signature.arguments}
    return named or _NAME.search(_snake(signature.entry)) is not None or _TWO_DIMENSIONAL.search(ptx) is not None


def refuse_doubtful(spec: KernelSpec, ptx: str, verdict: Verdict, touches: Callable[[], bool] = lambda: False) -> None:
    """Raise for a kernel that may not be a product; the message says what to do if it is one."""
    if why := doubt(spec, ptx, verdict, touches):
        raise SignatureError(
            f"{spec.signature.entry} computes A·B under no reading of its parameters that was tried, and {why}",
            f"if it is a matrix product, give --signature (as read: {spec.signature.declaration()}), --grid and "
            "--block; for any other kernel, --args and --expect",
        )


def refuse_modular(spec: KernelSpec) -> None:
    """Raise for a product of integers modulo a number, which is right as long as no sum reaches that."""
    body = str(getattr(getattr(spec.geometry, "facts", None), "reached", ""))
    if not spec.is_rung and spec.dtypes[0].name.startswith(("int", "uint")) and _MODULAR.search(body):
        raise SignatureError(f"{spec.signature.entry} takes remainders of its sums, and products modulo a number are "
                             "not judged", "run one launch with --args … and --expect FILE.py:FUNCTION")  # fmt: skip


def multiplies(ptx: str, dtype: DType) -> bool:
    """Whether the code multiplies numbers of the kernel's kind; integers may be indices, which cannot be told apart."""
    return (_INTEGER if dtype.name.startswith(("int", "uint")) else _FLOAT).search(ptx) is not None
