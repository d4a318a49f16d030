"""Random GEMM kernels as users write them: a recipe, its text, what is true of it, and faults to make in it.

recipe      all choices of one kernel, as plain data
draw        a random recipe from a seed
sites       places in a text where a fault can be made
elements, names, shared_tile, global_tile, pipeline, accumulate_*, epilogue, host    the parts of a kernel
kernel      the parts put together
"""
