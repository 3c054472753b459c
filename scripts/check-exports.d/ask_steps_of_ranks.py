"""ask_steps_of_ranks.py EXPORTS REPORT: has Holistic Trace Analysis and the PyTorch Profiler plugin of TensorBoard read the
directory of a job's exports, with a file for each rank. HTA must find the steps of each rank, and the plugin the ranks, their
steps and the collective operations, with the waiting of each rank for the last."""

import json
import logging
import os
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

from hta.trace_analysis import TraceAnalysis  # noqa: E402
from torch_tb_profiler import io  # noqa: E402
from torch_tb_profiler.profiler import RunLoader  # noqa: E402


def main(exports, report):
    with open(report) as file:
        processes = {process["rank"]: process for process in json.load(file)["processes"]}
    hta = TraceAnalysis(trace_dir=exports)
    steps = {rank: len(hta.t.get_iterations(rank)) + 1 for rank in hta.t.trace_files}
    with tempfile.TemporaryDirectory() as folder:
        # The plugin knows its files by their names.
        for rank in processes:
            os.link(f"{exports}/rank{rank}.json.gz", f"{folder}/rank{rank}.pt.trace.json.gz")
        with io.Cache() as caches:
            run = RunLoader("job", folder, caches).load()
    workers = sorted(run.workers)
    if workers != sorted(["All", *(f"rank{rank}" for rank in processes)]):
        sys.exit(f"TensorBoard finds the workers {workers}")
    together = run.profiles["All", "default"] if ("All", "default") in run.profiles else run.get_profile("All", None)
    print(steps, vars(together).keys(), together.steps_to_overlap, together.comm_ops)


if __name__ == "__main__":
    main(*sys.argv[1:])
