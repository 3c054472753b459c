#!/usr/bin/env bash
# Prints docs/accuracy.md: how far reported durations on the simulated GPU are from the truth, by situation and, for
# work that is hard to time, by three estimators. Takes about a minute.
#
#   scripts/accuracy.sh > docs/accuracy.md
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$root/scripts/build-sim.sh" >&2
GPUSPY_ACCURACY=$scratch/page cargo test --quiet --manifest-path "$root/Cargo.toml" --workspace --test e2e -- \
    --ignored --exact accuracy::print_the_accuracy_page >&2
cat "$scratch/page"
