#!/usr/bin/env bash
# Compares gpuspy with the truth on a machine with an NVIDIA GPU: are all launches counted, are their durations right, how
# far are the clocks apart, and what does tracing cost?
#
#   scripts/gpu-check.sh [-o FOLDER] [--quick] [--budget SECONDS] [--gpuspy PATH] [--program NAME=COMMAND]... [--only NAME]... [--rounds N]
#
# Needs the built target/release/gpuspy and libgpuspy.so (side by side, or --gpuspy) and python3. Uses whichever of nvcc,
# torch, triton, cupy, jax, numba, warp, taichi and pycuda it finds, and says what it skips. --program adds another program,
# which has to print a line of JSON like those in gpu-check.d/programs (gpu-check.d/parts.py lists the keys); --only runs
# only the named programs. Runs for at most SECONDS (540, with --quick 150), the most important programs first. Changes no
# setting of the GPU; writes into FOLDER (gpu-check) and a temporary folder of its own. Exits with 0 unless nothing worked.
#
# scripts/gpu-session runs this among other things; run that one if a GPU is available for ten minutes only.
#
# FOLDER/gpu-check.txt is for people. FOLDER/gpu-check.json has, with all times in ns:
#
#   format      1
#   date, command, seconds, budget_s, quick
#   machine     gpus[] as nvidia-smi lists them (name, uuid, driver, ...); gpu: the name in gpuspy's report; cpu, cores,
#               kernel, python
#   gpuspy      version, commit, modes[]: the kinds of --timing that it has
#   skipped[]   what, why: programs that could not be tried, and what there was no time for
#   programs[]  name, versions{}, kernels: launches of the measured part in mode "exact", and
#     runs[]      every run in order: mode (plain; off, auto, exact: --timing; profiler: torch.profiler alone;
#                 profiler+exact: both at once), round, seconds, step_ns: median time of a step of the measured part; or
#                 error, and stderr[]: the last lines
#     counts[]    mode, against (program, profiler, exact: what gpuspy is compared with), ours and theirs
#                 {launches, in_graphs}, equal, differences[] {name, ours, theirs} by kernel; dropped, unattributed,
#                 untimed{} of the whole run
#     durations[] against (profiler: CUPTI, the same launches; graphs: CUPTI, whole graph launches; apart: CUPTI in a
#                 separate run, medians by kernel; program: the GPU's own timer, medians by kernel), pairs, unpaired,
#                 median_ns, p5_ns, p95_ns of ours - theirs (signed), abs_median_ns, abs_p95_ns, and for single launches
#                 inside, below, above: shares of theirs in [lo, hi], under lo, over hi, with a tolerance of 2 ns and
#                 50 ppm for the clocks. CUPTI measures how long a kernel executed, gpuspy its GPU interval: ours may be
#                 longer by the time that a launch takes to start
#     starts[]    ours - CUPTI's start of the same launches: clock (host, or gpu: then the offset is unknown, and the
#                 median is subtracted), pairs, median_ns, p5_ns, p95_ns, on the host's clock inside, and
#                 uncertainty_ns: half the width of the clocks' interval by gpuspy's own account. The uncertainty of
#                 torch.profiler's clocks is included in the differences
#     slowdown{}  by mode: ratios of step_ns to that of "plain" in the same round: rounds, median, q1, q3
#     own_cost{}  by mode: the first round's report on its own cost: agent_ns, poller_ns, cost_percent, ...; launches,
#                 timed, in_runs, in_bursts. For the whole process including start-up, where slowdown is of the measured
#                 part
#     expected[]  mode, what, least, found, met: the least that a report of the program must show, and the numbers of the
#                 program that must be the same as without gpuspy (parts.py)
#     no_time_for[]   modes of the first round
#     errors[]    comparisons that failed
set -euo pipefail

folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if ! command -v python3 >/dev/null; then
    echo "gpu-check.sh: there is no python3" >&2
    exit 2
fi
exec python3 -B "$folder/gpu-check.d/check.py" "$@"
