#!/usr/bin/env bash
# What gpuspy costs and how fast it is, on the simulated GPU: host ns that the agent adds to a launch, records that the
# collector drains, launches that a report and an export read, bytes and memory that a trace takes. Nothing of it is of a real
# GPU. Prints a table of medians with their spread, in ratios where the machine's own speed would be most of it.
#
#   scripts/bench.sh [--quick]      default: some minutes, with traces of 1 and 10 million launches; --quick: under one
#
# Exits with 1 when something is not built (scripts/build-sim.sh), an answer about a generated trace is wrong, or memory grows
# with the trace. Needs python3.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
exec python3 -B "$root/scripts/bench.d/bench.py" "$root" "$@"
