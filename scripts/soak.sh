#!/usr/bin/env bash
# Runs programs under one collector for so long, with faults injected into most of them, and checks that every report agrees
# with the simulator's truth and that nothing grows (tests/e2e/soak.rs):
#
#   scripts/soak.sh [SECONDS]     default 60; scripts/build-sim.sh builds what it runs
#
# GPUSPY_SOAK_SEED=N takes other programs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

GPUSPY_SOAK_SECONDS=${1:-60} exec cargo test --quiet --workspace --test e2e -- \
    --ignored --exact soak::nothing_grows_and_every_report_agrees_with_the_truth --nocapture
