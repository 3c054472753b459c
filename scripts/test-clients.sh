#!/usr/bin/env bash
# Runs programs of clients of CUDA under gpuspy on the stand-in GPU: what the report counts must equal what the stand-in saw. The
# clients are tinygrad, cuda.core with cuda.bindings, nvcc's <<<...>>>, Numba, Triton and Taichi; scripts/test-pytorch.sh runs
# PyTorch.
#
# Each is pinned by hash and comes from PyPI once, into a folder of its own in downloads/: 0.8 GB in all, 2.6 GB when installed. No
# kernel computes anything there. CuPy, JAX and Warp bring NVIDIA's runtime, which accepts no other driver than NVIDIA's:
# scripts/gpu-check.sh runs them on a GPU.
#
# Needs Python 3.11 with pip and venv, and gcc, on x86-64.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/test-clients.d/clients.sh"
here=$root/scripts/test-clients.d

# client NAME MEGABYTES PROGRAM: installs a Python client and observes a program of it. Warnings are off: Numba wants more work
# for its GPU.
client() {
    install "$1" "$here/requirements/$1.txt" "$2"
    observe "$1" "$root/downloads/$1/bin/python" -W ignore "$here/programs/$3.py"
}

# What nvcc compiles is linked against the stand-in runtime: NVIDIA's is not run here.
nvcc() {
    local cuda=$root/downloads/nvcc/lib/python3.11/site-packages/nvidia/cu13
    install nvcc "$here/requirements/nvcc.txt" 600
    "$cuda/bin/nvcc" -arch=sm_80 -cudart none -I"$cuda/include/cccl" -o "$scratch/chevrons" "$here/programs/chevrons.cu" \
        -Xlinker "$root/target/sim/lib/libcudart.so.13"
    observe nvcc "$scratch/chevrons"
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$root/scripts/build-sim.sh"

DEV=CUDA:PTX CACHEDB=$scratch/tinygrad.db client tinygrad 200 tinygrad_jit
client cuda-python 300 cuda_python
nvcc
NUMBA_CACHE_DIR=$scratch/numba client numba 1200 numba_kernel
TRITON_CACHE_DIR=$scratch/triton client triton 1400 triton_kernel
# It would ask its makers for a newer version.
TI_SKIP_VERSION_CHECK=ON XDG_CACHE_HOME=$scratch client taichi 400 taichi_kernel
finish
