#!/usr/bin/env bash
# Builds gpuspy, and the simulated GPU for machines without a real one, and runs `gpuspy demo`. Its traces go into target/.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=$root/target

if [[ ! -e $target/release/gpuspy ]]; then
    echo "${0##*/}: compiling gpuspy; the first time, this takes about ten minutes on two cores"
fi
(cd "$root" && cargo build --quiet --release --target-dir "$target" -p gpuspy -p gpuspy-agent -p simcuda)
exec "$target/release/gpuspy" demo -o "$target"
