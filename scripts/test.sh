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

step() { printf '\n== %s\n' "$*"; }

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

step "lints"
cargo clippy --workspace --all-targets --quiet -- -D warnings

step "the agent's dependencies"
scripts/check-agent-deps.sh

step "which file may use which"
python3 -B -m unittest discover -s scripts/check-layers.d/tests
scripts/check-layers

step "NVIDIA's headers and runtimes, from PyPI"
scripts/fetch.sh

if [[ ${#parts[@]} -gt 1 ]]; then
    step "tests of each part"
    exec cargo nextest run "${parts[@]}" "$@"
fi

step "gpuspy, the simulated GPU and the client programs"
scripts/build-sim.sh

# Without these their tests say that they are skipped.
step "allocators and a false clock, of Debian's"
if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null && [[ ! -e /usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1 ]]; then
    (apt-get update -qq && apt-get install -y -qq --no-install-recommends libjemalloc2 libmimalloc2.0 libtcmalloc-minimal4 \
        libfaketime >/dev/null) || echo "they cannot be installed"
fi

step "tests"
cargo nextest run "${parts[@]}" "$@"

step "a minute of programs with faults, under one collector"
scripts/soak.sh 60

step "CPython's own tests, with the agent preloaded and without it"
scripts/check-strangers cpython

step "packages, each installed and tried"
for tool in rpmbuild cpio; do
    if ! command -v $tool >/dev/null && [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
        (apt-get update -qq && apt-get install -y -qq rpm cpio >/dev/null) || echo "$tool cannot be installed"
    fi
done
scripts/package.sh
scripts/check-packages.sh

step "gpu-check.sh, gpu-probe and gpu-session on the simulated GPU"
python3 -B -m unittest discover -s scripts/gpu-check.d/tests

step "what Perfetto and HTA say of exports"
scripts/check-exports.sh

step "queries on DuckDB"
scripts/check-queries.sh

# Where there is no Chromium and none can be installed, it says so, with status 77.
step "the page of report --html, in a browser"
scripts/check-page.sh || [[ $? == 77 ]]

step "PyTorch on the simulated GPU"
python3 -B -m unittest discover -s scripts/test-clients.d/tests
scripts/test-pytorch.sh

step "other clients of CUDA on the simulated GPU"
scripts/test-clients.sh
