#!/usr/bin/env bash
# Runs the checks that take too long, or need too much, for every run of the tests:
#
#   scripts/deep-check.sh [SECONDS]     SECONDS of fuzzing per target (default 300)
#
# These are Miri over the wire crate and the agent's thread state, the wire's fuzz targets under AddressSanitizer, loom
# with more preemptions, and proptest with more cases. Miri and the fuzzers need nightly (rustup toolchain install
# nightly --component miri; cargo install cargo-fuzz). Checks that cannot run on this machine are named and skipped; the
# exit status is 1 only if a check failed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
seconds=${1:-300}
passed=() failed=() skipped=()

check() { # NAME COMMAND...
    local name=$1
    shift
    printf '\n== %s\n' "$name"
    if "$@"; then passed+=("$name"); else failed+=("$name"); fi
}

skip() { # NAME REASON
    printf '\n== %s: skipped, %s\n' "$1" "$2"
    skipped+=("$1 ($2)")
}

# Optimized, but with overflow checks and debug assertions, which are part of what these checks look for.
optimised() {
    env CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true \
        cargo test --release --target-dir target/deep -p gpuspy-wire "$@"
}

LOOM_MAX_PREEMPTIONS=4 check "loom, 4 preemptions" optimised --test loom
PROPTEST_CASES=100000 check "proptest against a queue, 100000 cases" optimised --test contract
PROPTEST_CASES=50000 check "proptest against a hostile peer, 50000 cases" optimised --test hostile

if ! cargo +nightly --version >/dev/null 2>&1; then
    skip "Miri" "no nightly toolchain"
    skip "fuzz targets" "no nightly toolchain"
else
    if cargo +nightly miri --version >/dev/null 2>&1; then
        # Runs the library's own tests, the model and the raw segments. Miri supports neither loom nor the test with two
        # processes.
        check "Miri" env MIRIFLAGS="${MIRIFLAGS:--Zmiri-disable-isolation}" \
            cargo +nightly miri test -p gpuspy-wire --lib --test contract --test hostile --test segment
        # Covers a thread's state that a signal handler finds half updated. The rest of the agent makes calls that Miri
        # does not support.
        check "Miri over the thread's state" cargo +nightly miri test -p gpuspy-agent --lib guarded::
    else
        skip "Miri" "this nightly has no miri component"
    fi
    if cargo +nightly fuzz --version >/dev/null 2>&1; then
        for manifest in $(git ls-files '*/fuzz/Cargo.toml'); do
            folder=$(dirname "$(dirname "$manifest")")
            for target in $(cd "$folder" && cargo +nightly fuzz list); do
                check "fuzz $folder $target, $seconds s" env -C "$folder" cargo +nightly fuzz run "$target" -- \
                    -max_total_time="$seconds" -max_len=16384 -print_final_stats=1
            done
        done
    else
        skip "fuzz targets" "no cargo-fuzz"
    fi
fi

printf '\n'
for name in ${passed[@]+"${passed[@]}"}; do echo "passed   $name"; done
for name in ${skipped[@]+"${skipped[@]}"}; do echo "skipped  $name"; done
for name in ${failed[@]+"${failed[@]}"}; do echo "FAILED   $name"; done
((${#failed[@]} == 0))
