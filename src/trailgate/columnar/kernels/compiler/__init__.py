"""How numba compiles kernels: what their code consists of, indexes, and instructions that numba cannot express."""
