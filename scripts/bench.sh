#!/usr/bin/env bash
# Measures what gpuspy costs and how fast it is, on the simulated GPU: host ns that the agent, and reading the stack, add to a
# launch, what lookups and a process's start take, records that the collector drains, launches that a report and an export read, and bytes and memory that a trace
# takes. No figure is of a real GPU. Prints a table of medians with their spread, as ratios where the machine's own speed
# would dominate.
#
#   scripts/bench.sh [--quick] [--reading | --growth | --references]
#
# It takes some minutes, with traces of 1 and 10 million launches. --quick: under one minute. --reading: only reports and
# exports. --growth: only those, of up to 100 million launches, which takes twenty minutes and 7 GB in $TMPDIR. --references: beside a tracepoint of
# LTTng-UST (Debian's lttng-tools and liblttng-ust-dev) and beside HTA (which scripts/check-exports.sh installs).
#
# Exits with 1 if something is not built (scripts/build-sim.sh), if an answer about a generated trace is wrong, or if
# memory grows with the trace. Needs python3.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
exec python3 -B "$root/scripts/bench.d/bench.py" "$root" "$@"
