#!/usr/bin/env bash
# Runs clients of CUDA under gpuspy on the simulated GPU: the report's counts must equal the simulator's.
#
#   test-clients.sh [CLIENT]...   CLIENT: tinygrad cuda-python nvcc numba triton taichi pycuda greenlet slangpy; default: all of them
#
# cuda-python is cuda.core with cuda.bindings, and nvcc a program with <<<...>>>; scripts/test-pytorch.sh runs PyTorch.
#
# Each is pinned by hash and downloaded from PyPI once, into a folder of its own in downloads/: 0.9 GB in total, 3 GB
# when installed. Kernels compute nothing there. CuPy, JAX and Warp bring NVIDIA's runtime, which accepts no other
# driver than NVIDIA's: scripts/gpu-check.sh runs them on a GPU.
#
# Needs Python 3.11 with pip and venv, gcc and g++, on x86-64.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/test-clients.d/clients.sh"
here=$root/scripts/test-clients.d
cuda=$root/downloads/nvcc/lib/python3.11/site-packages/nvidia/cu13

# client NAME MEGABYTES PROGRAM: installs a Python client and observes a program of it. Warnings are off: Numba warns
# about too little work for its GPU.
client() {
    install "$1" "$here/requirements/$1.txt" "$2"
    observe "$1" "$root/downloads/$1/bin/python" -W ignore "$here/programs/$3.py"
}

# nvcc's output is linked against the simulated runtime: NVIDIA's does not run here.
nvcc() {
    install nvcc "$here/requirements/nvcc.txt" 600
    "$cuda/bin/nvcc" -g -arch=sm_80 -cudart none -I"$cuda/include/cccl" -o "$scratch/chevrons" "$here/programs/chevrons.cu" \
        -Xlinker "$root/target/sim/lib/libcudart.so.13"
    observe nvcc "$scratch/chevrons"
}

# PyCUDA is distributed as source: pip compiles it once, against NVIDIA's headers and the simulator's libcuda.so, and
# nvcc compiles its kernels. Optimizing would take three times as long. Without a settings file its build silently
# counts down ten seconds, four times.
pycuda() {
    local venv=$root/downloads/pycuda
    "$root/scripts/fetch.sh"
    install nvcc "$here/requirements/nvcc.txt" 600
    install pycuda "$here/requirements/pycuda.txt" 200
    cat >"$scratch/.aksetup-defaults.py" <<SETTINGS
CUDA_INC_DIR = ["$root/downloads/cuda-12.9/include", "$venv/lib/python3.11/site-packages/nvidia/cuda_profiler_api/include"]
CUDADRV_LIB_DIR = ["$root/target/sim/lib"]
CUDA_ENABLE_CURAND = False
CXXFLAGS = ["-O0", "-w"]
SETTINGS
    HOME=$scratch build pycuda "$here/requirements/pycuda-sources.txt"
    PATH=$cuda/bin:$PATH PYCUDA_DISABLE_CACHE=1 observe pycuda "$venv/bin/python" "$here/programs/pycuda_kernels.py"
}

# run CLIENT. Files that a client keeps between runs go into scratch; Taichi would otherwise query its makers for a
# newer version.
run() {
    case $1 in
        tinygrad) DEV=CUDA:PTX CACHEDB=$scratch/tinygrad.db client tinygrad 200 tinygrad_jit ;;
        cuda-python) client cuda-python 300 cuda_python ;;
        nvcc) nvcc ;;
        numba) NUMBA_CACHE_DIR=$scratch/numba client numba 1200 numba_kernel ;;
        triton) TRITON_CACHE_DIR=$scratch/triton client triton 1400 triton_kernel ;;
        taichi) TI_SKIP_VERSION_CHECK=ON XDG_CACHE_HOME=$scratch client taichi 400 taichi_kernel ;;
        pycuda) pycuda ;;
        greenlet) client greenlet 50 greenlets ;;
        slangpy) client slangpy 400 slangpy_adapters ;;
        *) die "there is no client $1 here" ;;
    esac
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$root/scripts/build-sim.sh"

[[ $# -gt 0 ]] || set -- tinygrad cuda-python nvcc numba triton taichi pycuda greenlet slangpy
for name; do
    run "$name"
done
finish
