#!/usr/bin/env bash
# Runs PyTorch programs under gpuspy on the stand-in GPU: what the report counts must equal what the stand-in saw.
#
# PyTorch 2.7.1 comes from PyPI on first use, without NVIDIA's packages (0.85 GB, pinned by hash; 1.7 GB when installed), into
# downloads/. Its kernels are launched and timed there as on a GPU but compute nothing: in place of NVIDIA's libraries it finds
# the stand-in driver and runtime, a stand-in cuBLAS (tests/simcublas), and stubs of what else it must be able to load.
#
# Needs Python 3.11 with pip and venv, gcc and binutils, on x86-64.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
here=$root/scripts/test-pytorch.d
torch=$root/downloads/torch-2.7.1
libraries=$root/target/sim/torch-2.7.1
began=$SECONDS

die() {
    echo "test-pytorch.sh: $*" >&2
    exit 1
}

install_torch() {
    local python=python3.11 megabytes
    command -v "$python" >/dev/null || python=python3
    [[ $("$python" -c 'import sys; print(*sys.version_info[:2])' 2>/dev/null) == "3 11" ]] || die "needs Python 3.11, for which PyTorch is pinned"
    [[ $(uname -m) == x86_64 ]] || die "needs x86-64: PyTorch has no CUDA build for $(uname -m) on PyPI"
    mkdir -p "$root/downloads"
    megabytes=$(df --output=avail -BM "$root/downloads" | tr -dc 0-9)
    ((megabytes > 3000)) || die "PyTorch needs 3 GB in $root/downloads, and $megabytes MB are free; make room and run it again"
    rm -rf "$torch"
    "$python" -m venv "$torch" || die "$python cannot make a virtual environment (is its venv module installed?)"
    "$torch/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --no-compile --no-deps --require-hashes \
        -r "$here/requirements.txt" || die "pip could not install PyTorch from PyPI (is it reachable, and room in ${TMPDIR:-/tmp}?)"
    cp "$here/requirements.txt" "$torch/.complete"
    echo "installed in $((SECONDS - began)) s"
}

cmp -s "$here/requirements.txt" "$torch/.complete" || install_torch
"$root/scripts/build-sim.sh"

if [[ ! -e $libraries/.complete || -n $(find "$here/stubs.py" "$root"/tests/simcublas/* "$torch/.complete" -newer "$libraries/.complete" -print -quit) ]]; then
    rm -rf "$libraries"
    "$torch/bin/python" -B "$here/stubs.py" "$torch"/lib/python3.11/site-packages/torch/lib "$libraries" \
        libcublas.so.12="$root/tests/simcublas/cublas.c" libcublasLt.so.12="$root/tests/simcublas/cublas_lt.c"
    touch "$libraries/.complete"
fi
export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

failed=()
# observe NAME PROGRAM [VARIABLE=VALUE]...: -W ignore, since PyTorch misses NumPy aloud.
observe() {
    local name=$1 program=$here/programs/$2.py
    shift 2
    env "$@" timeout 300 python3 -B "$root/scripts/test-clients.d/against_truth.py" "$name" \
        "$torch/bin/python" -W ignore "$program" || failed+=("$name")
}

observe training train
observe streams streams
observe graphs graph
observe memory memory
observe memory-of-the-drivers-pool memory PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync
observe out-of-memory out_of_memory
observe processes processes
observe nvtx nvtx

echo "PyTorch: $((SECONDS - began)) s"
[[ ${#failed[@]} -eq 0 ]] || die "not as it happened: ${failed[*]}"
