// The cycle counter of every SM beside the GPU's timer: two launches around some work give its mean clock.
// With one block an SM, out[2 * sm] is the counter and out[2 * sm + 1] the timer in nanoseconds.
extern "C" __global__ void clock_of_sms(unsigned long long* out) {
    unsigned sm;
    unsigned long long cycles, ns;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    if (threadIdx.x == 0) out[2 * sm] = cycles, out[2 * sm + 1] = ns;
}
