"""ask_hta_ranks.py EXPORTS REPORT: has Holistic Trace Analysis read the directory of a job's exports, with a file for
each rank. It must identify the ranks by what the files say, and find in each file how much work the rank had (`gpuspy
report --json`)."""

import gzip
import json
import logging
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

from hta.trace_analysis import TraceAnalysis  # noqa: E402


def base_of_kineto(first):
    """Returns the base, if it is rounded as libkineto's ChromeTraceBaseTime is."""
    base = next(iter(first.values()))[0]
    return base if base % (7_889_238 * 10**9) == 0 else None


def main(exports, report):
    with open(report) as file:
        processes = json.load(file)["processes"]
    ours = {process["rank"]: process["timed"] for process in processes}
    hta = TraceAnalysis(trace_dir=exports)
    files = hta.t.trace_files
    for rank in ours:
        if not files.get(rank, "").endswith(f"rank{rank}.json.gz"):
            sys.exit(f"HTA does not find rank {rank}: {files}")

    # Work of each rank that is neither a copy nor a memset.
    symbols = hta.t.symbol_table.get_sym_id_map()
    kernel = symbols["kernel"]
    theirs = {rank: int((hta.t.get_trace(rank)["cat"] == kernel).sum()) for rank in files}
    if ours != theirs:
        sys.exit(f"HTA and gpuspy differ in kernels by rank:\n  gpuspy: {ours}\n  HTA:    {theirs}")

    # Moments of the ranks can be compared: all files have one base, and each rank's first call is where its own trace
    # has it.
    first = {}
    for rank, file in files.items():
        with gzip.open(file) as export:
            events = json.load(export)
        calls = [e["ts"] for e in events["traceEvents"] if e.get("cat") in ("cuda_runtime", "cuda_driver")]
        first[rank] = (events["baseTimeNanoseconds"], min(calls))
    if len({base for base, _ in first.values()}) != 1 or base_of_kineto(first) is None:
        sys.exit(f"the ranks' files have no common base of Kineto's: {first}")
    earliest = {rank: float(hta.t.get_trace(rank)["ts"].min()) for rank in files}
    late = {rank: (first[rank][1] - first[0][1]) - (earliest[rank] - earliest[0]) for rank in files}
    if any(abs(us) > 1 for us in late.values()):
        sys.exit(f"HTA moves the ranks against each other, us: {late}")

    breakdown = hta.get_temporal_breakdown(visualize=False)
    if sorted(breakdown["rank"]) != sorted(ours):
        sys.exit(f"HTA's breakdown has other ranks: {breakdown}")
    found = hta.get_idle_time_breakdown(ranks=sorted(ours), visualize=False)[0]
    if sorted(set(found["rank"])) != sorted(ours):
        sys.exit(f"HTA's idle times have other ranks: {found}")
    for analysis in (
        lambda: hta.get_gpu_kernel_breakdown(visualize=False),
        lambda: hta.get_comm_comp_overlap(visualize=False),
        lambda: hta.get_cuda_kernel_launch_stats(ranks=sorted(ours), visualize=False),
    ):
        analysis()
    print(f"HTA agrees: {', '.join(f'{n} kernels of rank {rank}' for rank, n in sorted(theirs.items()))}")


main(*sys.argv[1:])
