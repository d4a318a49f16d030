"""Which of M, N and K each integer is, by all their names together."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gemmsmith.kernel.role_names import extent_of, extent_role, is_weight, layer_role, words

_EXTENTS = ("M", "N", "K")
# Channels of a linear layer: out is BT × OC, inp BT × C, weight OC × C. C alone is no extent.
_CHANNELS = {"oc": "N", "c": "K"}
_ROWS_OF_LAYER = frozenset(("bt", "m", "rows", "tokens", "ntokens"))
_GRADIENT = re.compile(r"(?i)d(?:_?(?:inp|input|out|output|w|weight|x|y|bias))s?\b|\w*grad\w*")


def extents_by_name(names: dict[int, str], matrices: Mapping[str, str] | None = None) -> dict[int, str]:
    """Roles of the integers among a kernel's parameters, by their places: one alone is the size of square matrices.

    ``matrices``: the role of each pointer, by its name.
    """
    if len(names) == 1:
        return dict.fromkeys(names, "N")
    named_after = {i: extent_of(name, matrices or {}) for i, name in names.items()}
    if all(named_after.values()) and set(_EXTENTS) <= set(named_after.values()):
        return named_after
    if channels := _channels(names, matrices or {}):
        return channels
    roles = {i: extent_role(name) for i, name in names.items()}
    if sorted(roles.values()) != sorted(_EXTENTS):  # n, in_features and out_features may be those of a gradient
        if samples := samples_of_layer(names, matrices or {}):
            return samples
        roles = {i: "" if layer_role(names[i]) else role for i, role in roles.items()}
    known = set(roles.values())
    unclear = "" in known and not {"M", "N", "K"} <= known
    if unclear or known == {"M", "N"}:
        # m, n, p: which of them is summed over differs from file to file.
        return dict.fromkeys(names, "") | {i: r for i, r in roles.items() if _is_explicit(names[i], r)}
    return roles


def samples_of_layer(names: Mapping[int, str], matrices: Mapping[str, str]) -> dict[int, str]:
    """Roles where K and N are named as a linear layer has them, and one other number is the rows, whatever its name is:
    ``batch, in_f, out_f`` beside weights. None beside gradients, which have other products."""
    roles = {i: layer_role(name) for i, name in names.items()}
    rows = [i for i, role in roles.items() if role not in ("N", "K")]
    if sorted(roles[i] for i in roles if i not in rows) != ["K", "N"] or len(rows) != 1:
        return {}
    if not any(is_weight(name) for name in matrices) or any(_GRADIENT.fullmatch(name) for name in matrices):
        return {}
    return roles | {rows[0]: "M"}


def _channels(names: dict[int, str], matrices: Mapping[str, str]) -> dict[int, str]:
    """Roles of BT, C and OC beside a layer's weights; none beside gradients, which have other products."""
    roles = {i: "M" if name.lower() in _ROWS_OF_LAYER else _CHANNELS.get(name.lower(), "") for i, name in names.items()}
    if sorted(roles.values()) != sorted(_EXTENTS) or not any(is_weight(name) for name in matrices):
        return {}
    return {} if any(_GRADIENT.fullmatch(name) for name in matrices) else roles


def _is_explicit(name: str, role: str) -> bool:
    return role == "K" or len(words(name)) > 1
