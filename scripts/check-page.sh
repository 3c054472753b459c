#!/usr/bin/env bash
# Checks the page of `gpuspy report --html` in a browser without a screen: every number is that of `report --json`, every
# operation that of `report --operations`, every text one of the report or the terminal; nothing is requested, no name does
# harm, keyboard, mouse and search work, and it fits a wide screen and a phone's. The pages are of the demo, NVTX ranges, a random program with
# GPU times and without, steps with a long warm-up and on a GPU that becomes slower, a job of two ranks, a job of which ranks crashed, one
# that stopped when a rank failed, hostile names and a damaged trace, on the simulated GPU.
#
#   scripts/check-page.sh [PICTURES]     PICTURES is a folder for pictures of the pages
#   scripts/check-page.sh --large        pages of generated traces, too: half a million operations, which may take 8 MB, and over a
#                                        million, of which a page has bins
#   scripts/check-page.sh --picture      draws docs/images/page.png, too
#
# Needs node 20 and npm, and Chromium, which it installs if it is root and apt-get has it; without it the exit status is 77.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/check-page.d/tools.sh"
gpuspy=${GPUSPY_BINARY:-$root/target/release/gpuspy}
bin=$root/target/sim/bin
option=
if [[ ${1:-} == --* ]]; then
    option=$1
    shift
fi
pictures=${1:-}

tools=$(page_tools)
if ! command -v chromium >/dev/null; then
    "$root/scripts/install-debian" chromium fonts-dejavu-core || true
fi
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
    echo "check-page.sh: chromium is missing: install it, or run this as root where apt-get has it" >&2
    exit 77
}
[[ -n ${GPUSPY_BUILT:-} ]] || "$root/scripts/build-page" --check
if [[ -z ${GPUSPY_BINARY:-} ]]; then
    "$root/scripts/build-sim.sh"
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=()

# judge NAME TRACE: checks the page of a trace.
judge() {
    local name=$1 trace=$2
    "$gpuspy" report "$trace" --html "$scratch/$name.html" 2>/dev/null
    "$gpuspy" report "$trace" --json >"$scratch/$name.json" 2>/dev/null
    "$gpuspy" report "$trace" --operations >"$scratch/$name.operations" 2>/dev/null
    "$gpuspy" report "$trace" --section ranks,coverage --width 100000 >"$scratch/$name.screen" 2>/dev/null
    node "$root/scripts/check-page.d/judge.mjs" "$tools" "$chromium" "$name" "$scratch/$name.html" "$scratch/$name.json" \
        "$scratch/$name.operations" "$scratch/$name.screen" ${pictures:+"$pictures"} || failed+=("$name")
}

# record NAME COMMAND...: records a program.
timing=exact
record() {
    "$root/scripts/simgpu" "$gpuspy" run --quiet --timing "$timing" -o "$scratch/$1.gspy" -- "${@:2}" >/dev/null
}

# capture NAME COMMAND...: does so and checks its page.
capture() {
    record "$@"
    judge "$1" "$scratch/$1.gspy"
}

"$root/scripts/simgpu" "$gpuspy" demo --no-report -o "$scratch" >/dev/null 2>&1
judge demo "$scratch/gpuspy-demo.gspy"
if [[ $option == --picture ]]; then
    node "$root/scripts/check-page.d/picture.mjs" "$tools" "$chromium" "$scratch/demo.html" "$root/docs/images/page.png"
fi
capture ranges "$bin/nvtx"
capture random "$bin/random_program" 3 50 wide
timing=off capture untimed "$bin/random_program" 3 50 wide
capture warm-up "$bin/compiled_in_first_steps"
# On a busy machine the host may delay so many steps that a slower GPU does not stand out.
for _ in {1..5}; do
    record slower "$bin/steps" slow-gpu 800
    "$gpuspy" report "$scratch/slower.gspy" --json >"$scratch/slower.json" 2>/dev/null
    ! grep -q '"slow_stretches": \[$' "$scratch/slower.json" || break
done
judge slower "$scratch/slower.gspy"
if [[ -x $bin/hostile_names ]]; then
    # The program's own path is hostile, too.
    folder=$scratch/$'<script>window.harmed=3\xe2\x80\xae'
    mkdir "$folder"
    cp "$bin/hostile_names" "$folder"
    capture hostile "$folder/hostile_names"
fi

# Each rank sleeps longer than the one before, so that the last one comes last.
# shellcheck disable=SC2016
"$root/scripts/simgpu" "$gpuspy" run --quiet --timing exact -o "$scratch/ranks/" -- bash -c '
    for rank in 0 1; do
        RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 "$0" $rank 2 $((300 + 500 * rank)) 40 "$1" &
    done
    wait' "$bin/job_of_ranks" "$scratch/meeting" >/dev/null
judge ranks "$scratch/ranks"
# One rank is killed, and one crashes.
"$root/scripts/simgpu" "$gpuspy" run --quiet --timing exact -o "$scratch/crashed/" -- "$bin/job_of_three" >/dev/null
judge crashed "$scratch/crashed"

# One rank fails, and the others wait for it until they are ended.
# shellcheck disable=SC2016
SIMCUDA_DEVICES=3 "$root/scripts/simgpu" "$gpuspy" run --quiet -o "$scratch/stopped/" -- bash -c '
    for rank in 0 1 2; do
        CUDA_VISIBLE_DEVICES=$rank "$0" $rank 3 300 10000 "$1" $( ((rank == 2)) && echo exit 100) &
    done
    wait -n
    sleep 2
    kill $(jobs -p)
    wait
    true' "$bin/job_of_ranks" "$scratch/meeting of others" >/dev/null
judge stopped "$scratch/stopped"

# The last third of a file is gone.
size=$(stat -c %s "$scratch/gpuspy-demo.gspy")
head -c $((size * 2 / 3)) "$scratch/gpuspy-demo.gspy" >"$scratch/cut.gspy"
judge cut "$scratch/cut.gspy"

if [[ $option == --large ]]; then
    for launches in 480000 1010000; do
        "$root/target/release/scale" --generate $launches "$scratch/$launches.gspy" >/dev/null
        judge $launches "$scratch/$launches.gspy"
        rm "$scratch/$launches.operations"
        if (($(stat -c %s "$scratch/$launches.html") > 8000000)); then
            echo "check-page.sh: the page of $launches launches is larger than 8 MB" >&2
            failed+=("$launches")
        fi
    done
fi

if ((${#failed[@]} > 0)); then
    echo "check-page.sh: wrong pages: ${failed[*]}" >&2
    exit 1
fi
