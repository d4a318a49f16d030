"""Warp tiles on tensor cores by the wmma API; results pass through shared memory, so that edges can be guarded."""

from __future__ import annotations

from generated.draft import Draft, block_of
from generated.outputs import Outputs
from generated.shared_tile import SharedTile


def threads_text(draft: Draft) -> str:
    n = draft.names
    return "\n".join([
        "const int warp = tid / 32;",
        f"const int warp_m = warp / ({n.bn} / {n.tn}) * {n.tm}, warp_n = warp % ({n.bn} / {n.tn}) * {n.tn};",
    ])  # fmt: skip


def declare(draft: Draft) -> str:
    n = draft.names
    fill = draft.sites.text("accumulator", "accumulators are not set to zero",
                            f"wmma::fill_fragment({n.acc}[i][j], 0.0f);", ";")  # fmt: skip
    return "\n".join([
        f"wmma::fragment<wmma::accumulator, 16, 16, 16, float> {n.acc}[{n.tm} / 16][{n.tn} / 16];",
        f"for (int i = 0; i < {n.tm} / 16; ++i)", f"    for (int j = 0; j < {n.tn} / 16; ++j) {fill}",
    ])  # fmt: skip


def accumulate(draft: Draft, stage: str) -> str:
    n, sites, t = draft.names, draft.sites, draft.element.input
    a, b = SharedTile(draft, "A"), SharedTile(draft, "B")
    major_a = "row_major" if a.k_contiguous else "col_major"
    major_b = "col_major" if b.k_contiguous else "row_major"
    flipped = "col_major" if major_b == "row_major" else "row_major"
    major_b = sites.text("fragment", "B's fragment has the other order", major_b, flipped)
    pitch_a = sites.text("stride", "the pitch of a fragment of A", a.pitch, b.pitch)
    return "\n".join([
        f"for (int kk = 0; kk < {n.bk}; kk += 16) {{",
        block_of(f"wmma::fragment<wmma::matrix_a, 16, 16, 16, {t}, wmma::{major_a}> fa;",
                 f"wmma::fragment<wmma::matrix_b, 16, 16, 16, {t}, wmma::{major_b}> fb;",
                 f"for (int i = 0; i < {n.tm} / 16; ++i) {{",
                 block_of(f"wmma::load_matrix_sync(fa, &{a.read(stage, 'warp_m + i * 16', 'kk')}, {pitch_a});",
                          f"for (int j = 0; j < {n.tn} / 16; ++j) {{",
                          block_of(f"wmma::load_matrix_sync(fb, &{b.read(stage, 'warp_n + j * 16', 'kk')}, {b.pitch});",
                                   f"wmma::mma_sync({n.acc}[i][j], fa, fb, {n.acc}[i][j]);"), "}"), "}"), "}",
    ])  # fmt: skip


def finish(draft: Draft) -> str:
    n = draft.names
    wait = draft.sites.text("barrier", "no barrier before the results are read", "__syncthreads();", ";")
    store = (
        f"wmma::store_matrix_sync(&Cs[warp_m + i * 16][warp_n + j * 16], {n.acc}[i][j], {n.bn}, wmma::mem_row_major);"
    )
    return "\n".join([
        f"__shared__ __align__(32) float Cs[{n.bm}][{n.bn}];", f"for (int i = 0; i < {n.tm} / 16; ++i)",
        f"    for (int j = 0; j < {n.tn} / 16; ++j)", f"        {store}", wait,
    ])  # fmt: skip


def outputs(draft: Draft) -> Outputs:
    n = draft.names
    headers = (f"for (int i = tid; i < {n.bm} * {n.bn}; i += THREADS) {{",)
    return Outputs(headers, f"m0 + i / {n.bn}", f"n0 + i % {n.bn}", f"Cs[i / {n.bn}][i % {n.bn}]", 1)
