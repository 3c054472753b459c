#!/usr/bin/env bash
# Everything that must hold: formatting, lints with warnings denied, all tests. CI runs exactly this (.ci/run). It needs
# Rust (rust-toolchain.toml), gcc, Python 3.11 with pip, and node with npm, on x86-64; the rest it fetches and builds itself,
# into ignored folders.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

step() { printf '\n== %s\n' "$*"; }

if ! cargo nextest --version >/dev/null 2>&1; then
    step "cargo-nextest is missing: installing it"
    cargo install --locked cargo-nextest
fi

step "format"
cargo fmt --all --check

step "lints"
cargo clippy --workspace --all-targets --quiet -- -D warnings

step "the agent's dependencies"
scripts/check-agent-deps.sh

step "NVIDIA's headers and runtimes, from PyPI"
scripts/fetch.sh

step "gpuspy, the stand-in GPU and the client programs"
scripts/build-sim.sh

step "gpu-check.sh, gpu-probe and gpu-session on the stand-in GPU"
python3 -B -m unittest discover -s scripts/gpu-check.d/tests

step "what Perfetto and HTA say of exports"
scripts/check-exports.sh

step "PyTorch on the stand-in GPU"
python3 -B -m unittest discover -s scripts/test-clients.d/tests
scripts/test-pytorch.sh

step "other clients of CUDA on the stand-in GPU"
scripts/test-clients.sh

step "tests"
cargo nextest run --workspace "$@"
