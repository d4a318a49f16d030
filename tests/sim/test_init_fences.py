"""Which fences the asynchronous proxy needs: after the initialisation of an mbarrier, and after writes by threads."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import kernel

from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.races.hazards import HazardError, HazardKind
from gemmsmith.sim.schedule import NAMES, schedule_named

ROOM = ".shared .align 128 .b8 room[4096];"
INIT = "setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared::cta.b64 [room+2048], 1;"
COPY = """@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [room+2048], 512;
@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [room], [%b0], 512, [room+2048];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [room+2048], 0; @!%p2 bra WAIT;
shl.b32 %r1, %t, 2; mov.u32 %r2, room; add.u32 %r2, %r2, %r1; ld.shared.u32 %r3, [%r2];
mul.wide.u32 %d1, %t, 4; add.s64 %d1, %d1, %b1; st.global.u32 [%d1], %r3;"""
STORE = """shl.b32 %r1, %t, 2; mov.u32 %r2, room; add.u32 %r2, %r2, %r1; st.shared.u32 [%r2], %t;
{fence} bar.sync 0; setp.eq.u32 %p1, %t, 0; @%p1 cp.async.bulk.global.shared::cta.bulk_group [%b1], [room], 512;
@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;"""


def ran(body: str, schedule: str = "lockstep", strict: bool = False) -> tuple[SimDevice, np.ndarray]:
    """Run a body on 128 threads: 512 bytes of buffer 0 are 0, 1, …; returns buffer 1."""
    device = SimDevice("sm_90a", schedule_named(schedule), hazards=True, strict=strict)
    given, out = (device.allocate(512) for _ in range(2))
    device.write(given, np.arange(128, dtype=np.uint32).view(np.uint8))
    loaded = device.load_ptx(kernel(body, 2, ROOM).replace(".target sm_90", ".target sm_90a"), "k")
    device.launch(
        loaded, Launch(Geometry((1, 1, 1), (128, 1, 1)), tuple(a.to_bytes(8, "little") for a in (given, out)))
    )
    return device, device.read(out, 512).view(np.uint32)


def kinds(device: SimDevice) -> list[HazardKind]:
    try:
        device.synchronize()
    except HazardError as error:
        return [hazard.kind for hazard in error.hazards]
    return []


@pytest.mark.parametrize("schedule", NAMES)
def test_a_barrier_after_the_initialisation_is_enough(schedule: str) -> None:
    """As in the kernels of Triton: no alarm, and a note that names what NVIDIA's kernels have there."""
    device, out = ran(f"{INIT} bar.sync 0;\n{COPY}", schedule)
    (note,) = device.notes
    assert "missing-init-fence: initialisation at k.cu:1" in note
    assert "fence.mbarrier_init" in note
    assert not kinds(device)
    assert np.array_equal(out, np.arange(128))


def test_strict_makes_an_alarm_of_the_note() -> None:
    assert kinds(ran(f"{INIT} bar.sync 0;\n{COPY}", strict=True)[0]) == [HazardKind.UNFENCED_INIT]


@pytest.mark.parametrize("fence", ["fence.mbarrier_init.release.cluster;", "fence.proxy.async.shared::cta;"])
def test_either_fence_leaves_nothing_to_say(fence: str) -> None:
    device, _ = ran(f"{INIT} {fence} bar.sync 0;\n{COPY}", strict=True)
    assert not device.notes
    assert not kinds(device)


@pytest.mark.parametrize(("fence", "expected"), [
    ("fence.proxy.async.shared::cta;", []), ("", [HazardKind.UNFENCED]),
    ("fence.mbarrier_init.release.cluster;", [HazardKind.UNFENCED]),
])  # fmt: skip
def test_writes_need_a_proxy_fence(fence: str, expected: list[HazardKind]) -> None:
    """fence.mbarrier_init is none: it orders initialisations alone."""
    assert kinds(ran(STORE.format(fence=fence))[0]) == expected


def test_what_cp_async_has_overwritten_needs_no_fence() -> None:
    """The store by TMA reads the copies, not what threads wrote there before."""
    written, rest = STORE.format(fence="").split("setp", 1)
    copies = """mul.wide.u32 %d1, %t, 16; add.s64 %d1, %d1, %b0; shl.b32 %r4, %t, 4; mov.u32 %r5, room;
add.u32 %r5, %r5, %r4; setp.lt.u32 %p3, %t, 32; @%p3 cp.async.cg.shared.global [%r5], [%d1], 16;
cp.async.wait_all; bar.sync 0; setp"""
    device, out = ran(written + copies + rest)
    assert not kinds(device)
    assert np.array_equal(out, np.arange(128))
