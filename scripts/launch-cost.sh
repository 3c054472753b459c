#!/usr/bin/env bash
# Host ns that gpuspy adds to a kernel launch, on the stand-in driver with its simulated host cost switched off: what is left
# is the stand-in's own work and ours. Rounds take turns, so that the machine's moods hit all alike; medians are printed.
#
#   scripts/launch-cost.sh [ROUNDS]      default 5
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
rounds=${1:-5}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$root/scripts/build-sim.sh"

launch_rate() { # [gpuspy run …]
    SIMCUDA_HOST_COST=off "$root/scripts/simgpu" "$@" "$root/target/sim/bin/launch_rate" |
        sed 's/.*"median_ns":\([0-9.]*\).*/\1/'
}

for ((round = 0; round < rounds; round++)); do
    launch_rate >>"$scratch/without"
    for timing in off exact; do
        launch_rate "$root/target/release/gpuspy" run --quiet --no-report --timing "$timing" -o "$scratch/trace.gspy" -- \
            >>"$scratch/$timing"
    done
done

median() { sort -n "$1" | sed -n "$(((rounds + 1) / 2))p"; }
without=$(median "$scratch/without")
awk -v w="$without" -v off="$(median "$scratch/off")" -v exact="$(median "$scratch/exact")" 'BEGIN {
    printf "without gpuspy      %6.0f ns a launch\n", w
    printf "--timing off        %6.0f ns   +%.0f ns\n", off, off - w
    printf "--timing exact      %6.0f ns   +%.0f ns, two event records of the stand-in included\n", exact, exact - w
}'
