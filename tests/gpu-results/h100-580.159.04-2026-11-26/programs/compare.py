"""compare.py GPUSPY TRACE PROFILE: the kernels of `long.py gpt` by gpuspy, and by torch.profiler in a run of its own."""
import json
import subprocess
import sys

gpuspy, trace, profile = sys.argv[1:]
report = json.loads(subprocess.run([gpuspy, "report", "--json", trace], capture_output=True, check=True).stdout)
with open(profile) as file:
    theirs = json.load(file)["rows"]
rows = [row for row in report["kernels"] if row["total_ns"] and row["name"] in theirs]
rows.sort(key=lambda row: -row["total_ns"]["value"])
inside, ours_ns, theirs_ns = 0, 0, 0
for row in rows:
    count, us = theirs[row["name"]]
    average, own = us * 1_000 / count, row["avg_ns"]
    # CUPTI's times are whole ns, and the clocks of two runs.
    inside += own["lo"] - 50 <= average <= own["hi"] + 50
    ours_ns += row["total_ns"]["value"]
    theirs_ns += row["count"] * average
    print(f"{row['count']:6} launches, {row['timed']:6} timed: {own['value'] / 1e3:7.2f} us "
          f"[{own['lo'] / 1e3:7.2f}, {own['hi'] / 1e3:7.2f}], CUPTI {average / 1e3:7.2f} us  {row['name'][:60]}")
print(f"{inside} of CUPTI's {len(rows)} averages are in the interval; the totals are {ours_ns / theirs_ns:.3f} times CUPTI's")
