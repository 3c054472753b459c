#!/usr/bin/env bash
# Host ns that gpuspy adds to a kernel launch, on the stand-in driver. A launch there costs the host 5 µs, as one does that the
# poller can keep up with, and nothing else costs anything but the stand-in's own work: the difference is that, and ours. Rounds take turns, so that the machine's moods hit all alike. Each round is a process and
# gives its median; printed is the least of the rounds: processes fall into a fast and a slow mode by where they are loaded.
#
#   scripts/launch-cost.sh [ROUNDS]      default 9
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
rounds=${1:-9}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$root/scripts/build-sim.sh"

launch_rate() { # [gpuspy run …]
    SIMCUDA_HOST_COST=launch=5000,record=0,query=0,elapsed=0,other=0 "$root/scripts/simgpu" "$@" "$root/target/sim/bin/launch_rate" |
        sed 's/.*"median_ns":\([0-9.]*\).*/\1/'
}

for ((round = 0; round < rounds; round++)); do
    launch_rate >>"$scratch/without"
    for timing in off exact; do
        launch_rate "$root/target/release/gpuspy" run --quiet --no-report --timing "$timing" -o "$scratch/trace.gspy" -- \
            >>"$scratch/$timing"
    done
done

least() { sort -n "$1" | head -n 1; }
awk -v w="$(least "$scratch/without")" -v off="$(least "$scratch/off")" -v exact="$(least "$scratch/exact")" 'BEGIN {
    printf "without gpuspy      %6.0f ns a launch\n", w
    printf "--timing off        %6.0f ns   +%.0f ns\n", off, off - w
    printf "--timing exact      %6.0f ns   +%.0f ns, event records of the stand-in included\n", exact, exact - w
}'
"$root/target/release/gpuspy" report --json "$scratch/trace.gspy" |
    python3 -c 'import json, sys; c = json.load(sys.stdin)["coverage"]; print("of the last exact round, {:.0%} timed".format(c["timed"] / c["launches"]))'
