#!/usr/bin/env bash
# The demonstration: a small training-like program under gpuspy, on this machine's GPU, else on the stand-in GPU.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
demo=$root/target/sim/bin/demo

"$root/scripts/build-sim.sh"
on=()
if "$demo" --check >/dev/null 2>&1; then
    where="this machine's GPU"
else
    where="a simulated GPU, because this machine has none"
    on=("$root/scripts/simgpu")
fi
echo "A small training loop (tests/programs/demo.c) now runs on $where; gpuspy is preloaded into it and then prints its report:"
echo
trace=$root/target/demo.gspy
rm -rf "$trace"
"${on[@]}" "$root/target/release/gpuspy" run -o "$trace" -- "$demo"
echo
echo "That was the report: what the GPU did, where it waited and what for. The trace is kept, see: target/release/gpuspy report target/demo.gspy"
