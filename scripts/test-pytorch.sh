#!/usr/bin/env bash
# Runs PyTorch programs under gpuspy on the simulated GPU: the report's counts must equal the simulator's.
#
#   test-pytorch.sh [PART]...   PART: counts findings; default: both
#
# counts is whatever holds on a busy machine. findings compares how long programs with faults and without them take, so nothing
# else should run beside it.
#
# PyTorch 2.7.1 with its Triton comes from PyPI on first use, pinned by hash and without NVIDIA's packages, into
# downloads/: 1 GB, and 2.2 GB when installed. Its kernels are launched and timed as on a GPU but compute nothing: in
# place of NVIDIA's libraries it finds the simulated driver and runtime, a simulated cuBLAS (sim/cublas), and stubs of
# everything else that it must be able to load.
#
# Needs Python 3.11 with pip and venv, gcc and binutils, on x86-64.
set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/test-clients.d/clients.sh"
here=$root/scripts/test-pytorch.d
torch=$root/downloads/torch-2.7.1
libraries=$root/target/sim/torch-2.7.1

# The size includes the unpacked wheel: pip unpacks it next to the target folder.
install torch-2.7.1 "$here/requirements.txt" 3600
"$root/scripts/build-sim.sh"

built=$libraries/.complete
if [[ ! -e $built || -n $(find "$here/stubs.py" "$root/sim/cublas" "$torch/.complete" -newer "$built" -print -quit) ]]; then
    rm -rf "$libraries"
    "$torch/bin/python" -B "$here/stubs.py" "$torch/lib/python3.11/site-packages/torch/lib" "$libraries" \
        libcublas.so.12="$root/sim/cublas/cublas.c" libcublasLt.so.12="$root/sim/cublas/cublas_lt.c"
    touch "$built"
fi
if [[ -n ${PREPARE_ONLY:-} ]]; then
    exit
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# PyTorch warns if NumPy is missing.
export PYTHONWARNINGS=ignore

# program NAME PROGRAM [ARGUMENT]...: observes a program under a name.
program() {
    observe "$1" "$torch/bin/python" "$here/programs/$2.py" "${@:3}"
}

# fault PROGRAM FINDING: observes a program that has a fault, and its twin that has not, and compares what the finding
# promises with what the twin gains (twins.py); `-` for a fault that takes no time.
fault() {
    timeout 1200 python3 -B "$here/twins.py" "$1" "$2" "$torch/bin/python" -B "$here/programs/$1.py" || failed+=("$1")
}

counts() {
    program training train
    # Each kernel takes longer than PyTorch takes to launch it, on a machine that does five other things, too.
    SIMCUDA_KERNEL_NS=2000000 program "training that never waits" ahead
    program streams streams
    program graphs graph
    GPUSPY_GRAPH=nodes program "graphs with events inside" graph
    program memory memory
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True program "memory mapped piece by piece" memory
    PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync program "memory of the driver's pool" memory
    program "out of memory" out_of_memory
    # A capture turns this allocator's calls into nodes that allocate and free memory.
    PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync program "graphs that take memory" graph
    program processes processes
    program "tensors of another process" ipc
    # It leaves folders behind.
    SIMCUDA_DEVICES=2 OMP_NUM_THREADS=1 TMPDIR=$scratch observe torchrun "$torch/bin/python" -m torch.distributed.run --standalone --nproc-per-node 2 \
        "$here/programs/ranks.py"
    # Compiled anew each time, as in a clean checkout.
    TORCHINDUCTOR_CACHE_DIR=$scratch TRITON_CACHE_DIR=$scratch/triton program torch.compile compiled
    TORCHINDUCTOR_CACHE_DIR=$scratch/fused TRITON_CACHE_DIR=$scratch/fused/triton SIMCUDA_KERNEL_NS=2000 \
        program "many_small, compiled" many_small compiled
    program nvtx nvtx
    # What an export says of operators, from the texts of emit_nvtx, is what torch.profiler says of them.
    timeout 300 python3 -B "$here/operators.py" "$torch/bin/python" || failed+=("operators in an export")
}

findings() {
    # What is slow, and what to change: the diagnosis. Kernels of 300 µs are those of an ordinary training step; the host is
    # ahead of them unless something holds it up.
    export SIMCUDA_KERNEL_NS=300000
    # Only the wait in each step empties the queue: between launches, Python is held up for less than these kernels take, on a
    # machine that does five other things, too.
    SIMCUDA_KERNEL_NS=1000000 fault reads_loss sync-per-step
    fault pageable pageable-copies
    fault slow_loader host-stall
    fault growing -
    SIMCUDA_KERNEL_NS=2000 fault many_small tiny-kernels+host-stall
}

[[ $# -gt 0 ]] || set -- counts findings
for part; do
    [[ $part == counts || $part == findings ]] || die "there is no part $part here"
    "$part"
done
finish
