#!/usr/bin/env bash
# Runs the checks that take too long for CI, or need a nightly toolchain:
#
#   scripts/deep-check.sh [SECONDS]     SECONDS of fuzzing per target (default 60)
#
# - loom with more preemptions, and proptest with more cases (stable toolchain);
# - a run for each allocation of the agent's, which fails, alone and with all after it; runs that are killed at each system
#   call, and get a signal at each instruction of the agent's (stable toolchain);
# - the lines of free-threaded CPythons, which are built for that;
# - half an hour of programs with faults under one collector; Java and Chromium with the agent preloaded;
# - the page of report --html, of half a million operations and more (Chromium);
# - the queries on Spark, which must return what they do on DuckDB (Java);
# - the instructions of a report and an export, which a change must not increase by 5 % (valgrind);
# - the agent on glibc 2.31, which has functions for threads in a library of their own;
# - the packages, made with an empty CARGO_HOME and files closed to others, and the Debian package in a Debian that has
#   nothing else (root, debootstrap); a build for aarch64 (rustup target add aarch64-unknown-linux-gnu), and its tests in an
#   emulated machine (what scripts/check-arm names);
# - Miri on the wire contract, on the trace reader's unit tests and on the agent's thread state;
# - the cargo-fuzz targets under AddressSanitizer.
#
# Miri and the fuzzer need nightly: rustup toolchain install nightly --component miri; cargo install cargo-fuzz.
# Checks that this machine cannot run are listed as skipped; the exit status is 1 only if a check failed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
seconds=${1:-60}
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

# Optimized, but with overflow checks and debug assertions, which are part of the check.
optimized() {
    env CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true \
        cargo test --release --target-dir target/deep -p gpuspy-wire "$@"
}

# Isolation is off because the tests read the environment and the clock.
miri() {
    env MIRIFLAGS="${MIRIFLAGS:--Zmiri-disable-isolation}" cargo +nightly miri test "$@"
}

LOOM_MAX_PREEMPTIONS=4 check "loom, 4 preemptions" optimized --test loom
PROPTEST_CASES=100000 check "proptest against a queue, 100000 cases" optimized --test contract
PROPTEST_CASES=50000 check "proptest against a hostile peer, 50000 cases" optimized --test hostile

scripts/build-sim.sh
if scripts/build-free-threaded; then
    check "lines of free-threaded CPythons" cargo nextest run -p gpuspy-tests python_lines::
else
    skip "lines of free-threaded CPythons" "they cannot be built here"
fi
check "pages of half a million and of a million operations" scripts/check-page.sh --large
check "every allocation fails in turn; kills and signals at every point" env GPUSPY_ALL_FAILURES=1 \
    cargo nextest run --workspace --profile deep failing_calls:: hazards::killed hazards::signals

check "CPython's tests, Java and Chromium with the agent preloaded" scripts/check-strangers
check "half an hour of programs with faults, under one collector" scripts/soak.sh 1800

if command -v java >/dev/null; then
    check "queries on DuckDB and Spark" scripts/check-queries.sh --spark
else
    skip "queries on Spark" "it needs Java"
fi
if command -v valgrind >/dev/null; then
    check "instructions of a report and an export" scripts/count-instructions
else
    skip "instructions of a report and an export" "it needs valgrind"
fi
if command -v dpkg-deb >/dev/null && [[ $(uname -m) == x86_64 ]]; then
    check "the agent on glibc 2.31" scripts/check-old-glibc
else
    skip "the agent on glibc 2.31" "it needs dpkg-deb, on x86-64"
fi
if command -v debootstrap >/dev/null && [[ $(id -u) == 0 ]]; then
    # A machine that has built nothing with cargo, whose users close their files to others.
    packages_elsewhere() (
        CARGO_HOME=$(mktemp -d)
        export CARGO_HOME
        trap 'rm -rf "$CARGO_HOME"' EXIT
        umask 077
        scripts/package.sh
    )
    check "packages are made on a fresh machine" packages_elsewhere
    check "packages, also in a bare Debian" scripts/check-packages.sh --chroot
else
    skip "packages in a bare Debian" "it needs root and debootstrap"
fi
if rustup target list --installed | grep -q aarch64-unknown-linux-gnu; then
    check "packages for aarch64 are built" scripts/package.sh --target aarch64
    if command -v qemu-system-aarch64 >/dev/null && command -v aarch64-linux-gnu-gcc >/dev/null && [[ $(id -u) == 0 ]]; then
        check "tests on an emulated Arm processor" scripts/check-arm
    else
        skip "tests on an emulated Arm processor" "it needs root, and the packages that scripts/check-arm names"
    fi
else
    skip "packages for aarch64, and tests there" "rustup target add aarch64-unknown-linux-gnu"
fi

if ! cargo +nightly --version >/dev/null 2>&1; then
    echo
    echo "No nightly toolchain was found: Miri and the fuzz targets are skipped." \
        "Install one with: rustup toolchain install nightly --component miri"
    skip "Miri" "no nightly toolchain"
    skip "fuzz targets" "no nightly toolchain"
else
    if cargo +nightly miri --version >/dev/null 2>&1; then
        # The loom tests and the tests with two processes are compiled out under Miri.
        check "Miri, wire contract" miri -p gpuspy-wire
        check "Miri, trace reader" miri -p gpuspy --lib trace::
        # A thread's state, half updated when a signal handler runs. The rest of the agent calls functions that Miri
        # does not support.
        check "Miri, agent's thread state" miri -p gpuspy-agent --lib guarded::
    else
        skip "Miri" "the nightly toolchain has no miri component"
    fi
    if cargo +nightly fuzz --version >/dev/null 2>&1; then
        # Each finds new inputs in a folder of its own, from the kept ones; the target `report` reads what `trace` does.
        # Leaks are not looked for: a scope of threads ends when their work does, and what glibc frees with a thread a moment
        # later counted as leaked.
        for target in $(cargo +nightly fuzz list --fuzz-dir fuzz/libfuzzer); do
            kept=fuzz/corpus/${target/report/trace}
            mkdir -p "fuzz/libfuzzer/corpus/$target"
            check "fuzz $target, $seconds s" cargo +nightly fuzz run --fuzz-dir fuzz/libfuzzer "$target" \
                "fuzz/libfuzzer/corpus/$target" "$kept" -- \
                -max_total_time="$seconds" -max_len=16384 -rss_limit_mb=3000 -detect_leaks=0 -print_final_stats=1
        done
    else
        skip "fuzz targets" "cargo-fuzz is not installed"
    fi
fi

printf '\n'
for name in ${passed[@]+"${passed[@]}"}; do echo "passed   $name"; done
for name in ${skipped[@]+"${skipped[@]}"}; do echo "skipped  $name"; done
for name in ${failed[@]+"${failed[@]}"}; do echo "FAILED   $name"; done
((${#failed[@]} == 0))
