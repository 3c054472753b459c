#!/usr/bin/env bash
# Whether the tests hold on a busy machine: runs them again and again, with two busy loops at normal priority beside them.
#
#   scripts/endurance.sh [RUNS]            scripts/test.sh, all of it; 5 times by default, half an hour each on two cores
#   scripts/endurance.sh --programs [RUNS] only the tests that run programs; 20 times by default, eight minutes each
#
# It prints a line for each run and the tests that failed, and goes on. What a run printed is in target/endurance. Its exit
# status is 1 if a run failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

what=(scripts/test.sh)
runs=5
logs=target/endurance
mkdir -p "$logs"
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

# What has to be fetched and compiled is not repeated, so it is done first, and without the loops.
scripts/fetch.sh
scripts/build-sim.sh
if [[ ${1:-} == --programs ]]; then
    # With another selection of packages, cargo would compile them with other features.
    what=(cargo nextest run --workspace -E 'package(gpuspy-tests)')
    runs=20
    shift
else
    (PREPARE_ONLY=1 scripts/test-clients.sh && PREPARE_ONLY=1 scripts/test-pytorch.sh) >"$logs/clients" 2>&1 &
    clients=$!
    cargo clippy --workspace --all-targets --quiet -- -D warnings
fi
cargo nextest run --workspace --no-run
if [[ -n ${clients:-} ]] && ! wait "$clients"; then
    cat "$logs/clients" >&2
    exit 1
fi
runs=${1:-$runs}
for _ in 1 2; do
    (while :; do :; done) &
done

failed=0
for ((run = 1; run <= runs; run++)); do
    began=$SECONDS status=0
    "${what[@]}" --no-fail-fast >"$logs/$run" 2>&1 || status=$?
    read -r load _ </proc/loadavg
    echo "run $run of $runs: exit status $status after $((SECONDS - began)) s, load $load"
    grep -aE '^ *(FAIL|TIMEOUT|SIG[A-Z]+) \[' "$logs/$run" | sort -u || true
    [[ $status == 0 ]] || failed=1
done
exit $failed
