// st.async: a store into the shared memory of another block of the cluster, whose bytes an mbarrier there counts.
#pragma once

// Stores into the shared memory of block `rank`, at the address that `address` is in this block. The 16 bytes are counted
// by the mbarrier at `barrier` in that block.
__device__ __forceinline__ void st_async_16(unsigned address, unsigned barrier, unsigned rank, const float (&four)[4]) {
    asm volatile(
        "{\n.reg .b32 there, counter;\n"
        "mapa.shared::cluster.u32 there, %0, %2;\nmapa.shared::cluster.u32 counter, %1, %2;\n"
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [there], {%3, %4, %5, %6}, [counter];\n}"
        ::"r"(address), "r"(barrier), "r"(rank), "f"(four[0]), "f"(four[1]), "f"(four[2]), "f"(four[3]) : "memory");
}
