#!/usr/bin/env bash
# Compares gpuspy with the truth on a machine with an NVIDIA GPU: are all launches counted, are their durations right, how far
# are the clocks apart, what does watching cost?
#
#   scripts/gpu-check.sh [-o FOLDER] [--quick] [--budget SECONDS] [--gpuspy PATH] [--program NAME=COMMAND]... [--only NAME]... [--rounds N]
#
# Needs the built target/release/gpuspy and libgpuspy.so (side by side, or --gpuspy) and python3. Uses what it finds of nvcc,
# torch, triton, cupy, jax, numba, warp, taichi and pycuda, and says what it skips. --program adds a program of one's own that
# prints such a line of JSON as those in gpu-check.d/programs do (gpu-check.d/parts.py tells its keys), --only leaves out all but
# the named ones. Runs for at most SECONDS (540, with --quick 150), the most important things first. Changes no setting of the
# GPU; writes into FOLDER (gpu-check) and a temporary folder of its own. Exit status 0 unless nothing worked at all.
#
# scripts/gpu-session runs this among other things, and is what to run where there is a GPU for ten minutes only.
#
# FOLDER/gpu-check.txt is for people. FOLDER/gpu-check.json, with all times in ns:
#
#   format      1
#   date, command, seconds, budget_s, quick
#   machine     gpus[] as nvidia-smi tells them (name, uuid, driver, ...); gpu: the name that gpuspy saw; cpu, cores, kernel,
#               python
#   gpuspy      version, commit, modes[]: the kinds of --timing that it has
#   skipped[]   what, why: programs that could not be tried, and what there was no time for
#   programs[]  name, versions{}, kernels: launches of the measured part, as mode "exact" saw it, and
#     runs[]      every run in order: mode (plain; off, auto, exact: --timing; profiler: torch.profiler alone;
#                 profiler+exact: both at once), round, seconds, step_ns: median time of a step of the measured part; or error,
#                 and stderr[]: the last lines
#     counts[]    mode, against (program, profiler, exact: what else counted), ours and theirs {launches, in_graphs}, equal,
#                 differences[] {name, ours, theirs} by kernel; dropped, unattributed, untimed{} of the whole run
#     durations[] against (profiler: CUPTI, the same launches; graphs: CUPTI, whole graph launches; apart: CUPTI of a run of
#                 its own, medians by kernel; program: the GPU's own timer, medians by kernel), pairs, unpaired,
#                 median_ns, p5_ns, p95_ns of ours - theirs (signed), abs_median_ns, abs_p95_ns, and for single launches
#                 inside, below, above: shares of theirs in [lo, hi], under lo, over hi, give or take 2 ns and 50 ppm, as
#                 clocks differ. CUPTI tells how long a kernel executed, gpuspy how long it occupied its stream: ours may be
#                 longer by what a launch takes to begin
#     starts[]    ours - CUPTI's begin of the same launches: clock (host, or gpu: then the offset is not known, and the median
#                 is taken off), pairs, median_ns, p5_ns, p95_ns, on the host's clock inside, and uncertainty_ns: half the
#                 width of the clocks' interval by gpuspy's own account. How well torch.profiler knows its clocks is in it
#     slowdown{}  by mode: ratios of step_ns to that of "plain" in the same round: rounds, median, q1, q3
#     own_cost{}  by mode: what the report of the first round says of itself: agent_ns, poller_ns, cost_percent, ...; launches,
#                 timed, in_runs, in_bursts. Of the whole process, start-up included, where slowdown is of the measured part
#     expected[]  mode, what, least, found, met: what a report of the program must tell at least, and what of the program must be
#                 as it is without gpuspy (parts.py)
#     no_time_for[]   modes of the first round
#     errors[]    comparisons that failed
set -euo pipefail

folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if ! command -v python3 >/dev/null; then
    echo "gpu-check.sh: there is no python3" >&2
    exit 2
fi
exec python3 -B "$folder/gpu-check.d/check.py" "$@"
