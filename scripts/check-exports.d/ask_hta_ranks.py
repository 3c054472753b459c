"""ask_hta_ranks.py EXPORTS REPORT: Holistic Trace Analysis reads the directory of a job's exports, a file for each rank. It must
tell the ranks apart by what the files say, and find in each one's file how much work it had (`gpuspy report --json`)."""

import json
import logging
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

from hta.trace_analysis import TraceAnalysis  # noqa: E402


def main(exports, report):
    with open(report) as file:
        processes = json.load(file)["processes"]
    ours = {process["rank"]: process["timed"] for process in processes}
    hta = TraceAnalysis(trace_dir=exports)
    files = hta.t.trace_files
    for rank in ours:
        if not files.get(rank, "").endswith(f"rank{rank}.json.gz"):
            sys.exit(f"HTA does not find rank {rank}: {files}")

    # Work that is no copy and no set, of each rank.
    symbols = hta.t.symbol_table.get_sym_id_map()
    kernel = symbols["kernel"]
    theirs = {rank: int((hta.t.get_trace(rank)["cat"] == kernel).sum()) for rank in files}
    if ours != theirs:
        sys.exit(f"HTA and gpuspy differ in kernels by rank:\n  gpuspy: {ours}\n  HTA:    {theirs}")

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
