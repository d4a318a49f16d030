"""The function of its product that a kernel's name says it applies."""

from __future__ import annotations

from gemmsmith.kernel.role_names import words as words_of

_OTHER_FUNCTIONS = frozenset((
    "leaky", "p", "6", "grad", "gradient", "backward", "bwd", "d", "dropout", "norm", "residual", "softmax", "gelu",
    "silu", "swish", "sigmoid", "tanh", "or", "squared",
))  # fmt: skip


def says_relu(entry: str) -> bool:
    """Whether a kernel's name says that it computes relu of its product, and no other function of it."""
    told = words_of(entry)
    return "relu" in told and not _OTHER_FUNCTIONS.intersection(told)


def said_function(entry: str) -> str:
    """The smooth activation that a kernel's name says, and no other; empty if it says none."""
    told = set(words_of(entry))
    known = {"gelu": "gelu", "silu": "silu", "swish": "silu"}
    said = {known[word] for word in told & known.keys()}
    others = told & _OTHER_FUNCTIONS.difference(known)
    return said.pop() if len(said) == 1 and not others and "relu" not in told else ""
