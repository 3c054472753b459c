"""ask_steps.py EXPORT OPERATIONS REPORT: has the tools that ask for steps and operators read an uncompressed export of one
process whose steps gpuspy found, and compares what they find with the report (`gpuspy report --json`) and the operations
(`gpuspy report --operations`):

- gpu-idle: the steps, the kernels in them and the time in which the GPU was busy.
- Holistic Trace Analysis: the iterations, the kernels of each, and a critical path of one.
- The PyTorch Profiler plugin of TensorBoard, without its browser: the steps, the kernels by name, and the operators that
  PyTorch marked with emit_nvtx."""

import json
import logging
import re
import sys
import warnings
from collections import Counter
from statistics import median

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import analyzer as gpu_idle  # noqa: E402
from ask_hta import by_stream, same, times  # noqa: E402
from hta.trace_analysis import TraceAnalysis  # noqa: E402
from torch_tb_profiler.profiler.data import RunProfileData  # noqa: E402
from torch_tb_profiler.profiler.run_generator import RunGenerator  # noqa: E402

# What PyTorch writes behind the name of an operator.
BEHIND_NAME = re.compile(r", (seq|op_id|sizes|input_op_ids) = ")


def agree(tool, what, ours, theirs):
    if ours != theirs:
        sys.exit(f"{tool} and gpuspy differ in {what}:\n  gpuspy: {ours}\n  {tool}: {theirs}")


def operators(report):
    """Returns how often each operator was called, from the ranges in the report."""
    calls = Counter()
    for row in report["ranges"]:
        name, *behind = BEHIND_NAME.split(row["name"])
        if behind and ("::" in name or "seq" in behind):
            calls[name] += row["count"]
    return calls


def ask_gpu_idle(export, events, report):
    found = gpu_idle.measure(export)
    steps = [e for e in events if e.get("name", "").startswith("ProfilerStep#")]
    agree("gpu-idle", "the number of steps", report["steps"]["count"], found["steps"])
    first, last = steps[0]["ts"], max(e["ts"] + e["dur"] for e in steps)
    kernels = [e for e in events if e.get("cat") == "kernel" and first <= e["ts"] <= last]
    agree("gpu-idle", "the number of kernels in steps", len(kernels), found["n_kernels"])
    # One stream: nothing runs at the same time.
    busy = sum(e["dur"] for e in kernels) / 1000
    same("busy time in gpu-idle", [[busy]], [[found["kernel_ms"]]], 1e-3)


def ask_hta(export, report):
    hta = TraceAnalysis(trace_files={0: export})
    # It leaves out the last step of a file, which may be incomplete, and all that comes after its start.
    count = report["steps"]["count"] - 1
    agree("HTA", "the iterations", list(range(count)), [int(n) for n in hta.t.get_iterations(0)])
    frame = hta.t.get_trace(0)
    kernel = hta.t.symbol_table.get_sym_id_map()["kernel"]
    launches = frame[frame["cat"] == kernel].groupby("iteration").size()
    usual = median(launches.get(step, 0) for step in range(count))
    agree("HTA", "the kernels of an iteration", report["steps"]["launches_per_step"], usual)
    path, is_found = hta.critical_path_analysis(rank=0, annotation="ProfilerStep", instance_id=count // 2)
    if not is_found or not path.edges:
        sys.exit("HTA finds no critical path in a step")
    hta.get_temporal_breakdown(visualize=False)


def ask_tensorboard(export, streams, report):
    data = RunProfileData.parse("worker0", None, export, None)
    count = report["steps"]["count"]
    # It leaves out the last step if it has fewer kernels than the one before.
    names = [str(n) for n in range(count)]
    if data.steps_names not in (names, names[:-1]):
        sys.exit(f"TensorBoard's steps are {data.steps_names}, and the report has {count}")
    ours = {name: row for name, row in times(streams).items() if not name.startswith("Mem")}
    theirs = {name: [row["sum"], int(row["count"])] for name, row in data.kernel_stat.iterrows()}
    agree("TensorBoard", "the names of kernels", sorted(ours), sorted(theirs))
    same("kernels in TensorBoard", [ours[n] for n in sorted(ours)], [theirs[n] for n in sorted(ours)], 1e-3)
    found = {row.name: row.calls for row in data.op_list_groupby_name}
    agree("TensorBoard", "the calls of operators", dict(operators(report)), found)
    views = [view.name for view in RunGenerator("worker0", None, data).generate_run_profile().views]
    return count, sum(found.values()), views


def main(export, operations, report):
    with open(report) as file:
        report = json.load(file)
    with open(export) as file:
        events = json.load(file)["traceEvents"]
    streams = by_stream(operations)
    ask_gpu_idle(export, events, report)
    ask_hta(export, report)
    count, calls, views = ask_tensorboard(export, streams, report)
    print(f"gpu-idle, HTA and TensorBoard agree: {count} steps, {calls} operators; TensorBoard's views: {', '.join(views)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
