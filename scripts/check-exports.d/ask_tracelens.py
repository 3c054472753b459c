"""ask_tracelens.py EXPORT REPORT: has TraceLens make the tables of its report of an export with operators, and compares them with
the report of gpuspy (`gpuspy report --json`): the operators that launch kernels, how often, and for how long these ran."""

import contextlib
import io
import json
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")

from ask_hta import same  # noqa: E402

with contextlib.redirect_stdout(io.StringIO()):
    from TraceLens.Reporting.generate_perf_report_pytorch import generate_perf_report_pytorch

TABLES = {"gpu_timeline", "ops_summary_by_category", "ops_summary", "ops_unique_args", "unified_perf_summary"}
# The kernels, and what launches them: those outside of operators are of their calls.
LAUNCHED_BY = {
    "addmm_60us": "aten::addmm",
    "mm_40us": "aten::mm",
    "sgd_20us": "cuLaunchKernel",
    "gather_10us": "cuLaunchKernel",
}


def main(export, report):
    with open(report) as file:
        report = json.load(file)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        tables = generate_perf_report_pytorch(profile_json_path=export, output_csvs_dir=folder)
    if not TABLES <= tables.keys():
        sys.exit(f"TraceLens lacks tables: {sorted(TABLES - tables.keys())}")
    ours = {}
    for row in report["kernels"]:
        launched = ours.setdefault(LAUNCHED_BY[row["name"]], [0, 0.0])
        launched[0] += row["count"]
        launched[1] += row["total_ns"]["value"] / 1e6
    summary = tables["ops_summary"]
    theirs = {
        row["name"]: [int(row["Count"]), float(row["total_direct_kernel_time_ms"])] for _, row in summary.iterrows()
    }
    if ours.keys() != theirs.keys():
        sys.exit(f"TraceLens and gpuspy differ in operators: {sorted(ours)}, {sorted(theirs)}")
    same("operators in TraceLens", [ours[n] for n in sorted(ours)], [theirs[n] for n in sorted(ours)], 1e-3)
    print(f"TraceLens agrees: {', '.join(sorted(tables))}")


if __name__ == "__main__":
    main(*sys.argv[1:])
