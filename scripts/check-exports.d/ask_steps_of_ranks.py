"""ask_steps_of_ranks.py EXPORTS REPORT: has Holistic Trace Analysis and the PyTorch Profiler plugin of TensorBoard read the
directory of a job's exports, with a file for each rank. Both must find the steps of each rank, and the plugin's view of the
whole job must have the collective operation of each step (`gpuspy report --json`)."""

import json
import logging
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

from hta.trace_analysis import TraceAnalysis  # noqa: E402
from torch_tb_profiler.profiler import RunLoader  # noqa: E402
from torch_tb_profiler.profiler.data import DistributedRunProfileData, RunProfileData  # noqa: E402

COLLECTIVE = "nccl:all_reduce"


def agree(tool, what, ours, theirs):
    if ours != theirs:
        sys.exit(f"{tool} and gpuspy differ in {what}:\n  gpuspy: {ours}\n  {tool}: {theirs}")


def main(exports, report):
    with open(report) as file:
        report = json.load(file)
    ranks, count = sorted(process["rank"] for process in report["processes"]), report["steps"]["count"]
    hta = TraceAnalysis(trace_dir=exports)
    # It leaves out the last step.
    theirs = {rank: len(hta.t.get_iterations(rank)) for rank in hta.t.trace_files}
    agree("HTA", "the iterations by rank", {rank: count - 1 for rank in ranks}, theirs)

    read = {rank: RunProfileData.parse(f"host_{rank}", None, f"{exports}/rank{rank}.json.gz", None) for rank in ranks}
    # Its loader reads each file in a process of its own; what comes after that is the same.
    loader = RunLoader.__new__(RunLoader)
    loader.run_name = "job"
    together = loader._process_distributed_profiles([DistributedRunProfileData(data) for data in read.values()], None)
    if together is None:
        sys.exit("TensorBoard has no view of the whole job")
    steps = {rank: len(data.steps_names) for rank, data in read.items()}
    if any(steps[rank] not in (count, count - 1) for rank in ranks):
        sys.exit(f"TensorBoard's steps are {steps}, and the report has {count}")
    reduced = next(row["count"] for row in report["kernels"] if "AllReduce" in row["name"])
    rows = {worker: table["rows"] for worker, table in together.comm_ops["data"].items()}
    calls = sum(row[1] for table in rows.values() for row in table if row[0] == COLLECTIVE)
    agree("TensorBoard", "the collective operations", reduced, calls)
    print(f"HTA and TensorBoard agree: {count} steps of ranks {ranks}, {calls} collective operations")


if __name__ == "__main__":
    main(*sys.argv[1:])
