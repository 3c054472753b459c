#!/usr/bin/env bash
# Everything that must hold: formatting, lints with warnings denied, all tests. CI runs exactly this (.ci/run). It needs
# Rust (rust-toolchain.toml), gcc, Python 3.11 with pip, and node with npm, on x86-64; the rest it fetches and builds itself,
# into ignored folders (and installs packages of Debian's, if it is root and they are missing). What finds most is first:
# the first step that fails ends it.
#
#   scripts/test.sh --fast [OPTION ...]   formatting, lints, and the tests of each part by itself: two minutes, once it is built
#   scripts/test.sh [OPTION ...]          everything
#
# Options are cargo-nextest's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ $PWD == *[[:space:]:]* ]]; then
    echo "test.sh: the tests preload libraries from here, and the loader takes no path with a space or a colon: move $PWD" >&2
    exit 2
fi

# Says which step begins, and how many seconds after the start, so that a log shows where the time goes.
step() { printf '\n== %s (after %d s)\n' "$*" "$SECONDS"; }

asides=()
pids=()
logs=target/test-steps
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

# aside TITLE COMMAND ...: begins a step that goes on beside the following ones, until `join`. It is none that judges durations.
aside() {
    mkdir -p "$logs"
    asides+=("$1")
    "${@:2}" >"$logs/${#asides[@]}" 2>&1 &
    pids+=($!)
}

# join: waits for the steps that were begun, prints what they said, and ends with the first that failed.
join() {
    local n
    for n in "${!asides[@]}"; do
        local status=0
        wait "${pids[n]}" || status=$?
        step "${asides[n]}"
        cat "$logs/$((n + 1))"
        [[ $status == 0 ]] || exit "$status"
    done
    asides=()
    pids=()
}

# optional COMMAND ...: what may fail, since the tests that need it say that they are skipped.
optional() {
    "$@" || echo "$1: it cannot be had, and the tests that need it are skipped"
}

parts=(--workspace)
if [[ ${1:-} == --fast ]]; then
    parts+=(--exclude gpuspy-tests)
    shift
fi

if ! cargo nextest --version >/dev/null 2>&1; then
    step "cargo-nextest is missing: installing it"
    cargo install --locked cargo-nextest
fi

step "format"
cargo fmt --all --check

step "the page's script is what its sources make"
scripts/build-page --check

step "words and links of documents and comments"
python3 -B -m unittest discover -s scripts/check-words.d/tests
scripts/check-words
scripts/check-links

step "the agent's dependencies"
scripts/check-agent-deps.sh

step "which file may use which"
python3 -B -m unittest discover -s scripts/check-layers.d/tests
scripts/check-layers

step "NVIDIA's headers and runtimes, from PyPI"
scripts/fetch.sh

# What users get is compiled beside the lints and the tests: either leaves a core idle while it works on its largest crate.
if [[ ${#parts[@]} -eq 1 ]]; then
    aside "gpuspy, the simulated GPU and the client programs" scripts/build-sim.sh
    # Without these their tests say that they are skipped.
    if [[ ! -e /usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1 ]]; then
        aside "allocators and a false clock, of Debian's" optional scripts/install-debian libjemalloc2 libmimalloc2.0 \
            libtcmalloc-minimal4 libfaketime
    fi
    aside "CPythons that are newer than this system's, of Debian unstable" optional scripts/fetch-pythons
fi

step "lints"
cargo clippy --workspace --all-targets --quiet -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --quiet

if [[ ${#parts[@]} -gt 1 ]]; then
    step "tests of each part"
    exec cargo nextest run "${parts[@]}" "$@"
fi

step "compiling the tests"
cargo nextest run --no-run --cargo-quiet "${parts[@]}"
join
# The scripts of the steps below do not build or check again what the steps above have.
export GPUSPY_BUILT=1

step "tests"
cargo nextest run "${parts[@]}" "$@"

aside "a minute of programs with faults, under one collector" scripts/soak.sh 60
aside "CPython's own tests, with the agent preloaded and without it" scripts/check-strangers cpython
aside "other clients of CUDA on the simulated GPU" scripts/test-clients.sh
aside "PyTorch on the simulated GPU" scripts/test-pytorch.sh counts
step "packages, each installed and tried"
if ! command -v rpmbuild >/dev/null || ! command -v cpio >/dev/null; then
    scripts/install-debian rpm cpio || true
fi
scripts/package.sh
scripts/check-packages.sh

step "gpu-check.sh, gpu-probe and gpu-session on the simulated GPU"
python3 -B -m unittest discover -s scripts/gpu-check.d/tests

step "what Perfetto, HTA, TensorBoard's plugin, gpu-idle and Prometheus say of exports"
scripts/check-exports.sh

step "queries on DuckDB"
scripts/check-queries.sh

# Where there is no Chromium and none can be installed, it says so, with status 77.
step "the page of report --html, in a browser"
scripts/check-page.sh || [[ $? == 77 ]]
join

# It compares how long programs take, so it runs alone.
step "what findings promise of PyTorch programs"
python3 -B -m unittest discover -s scripts/test-clients.d/tests
scripts/test-pytorch.sh findings
