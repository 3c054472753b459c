"""compare.py GPUSPY OURS THEIRS: durations of the same launches of program.py in two runs, by kernel and situation: OURS/trace.gspy
beside OURS/out.txt, what the program printed, and THEIRS/profile.json beside THEIRS/out.txt. ns; medians of ours - CUPTI's."""
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

scripts = Path(__file__).resolve().parents[4] / "scripts"
sys.path[:0] = [str(scripts / "gpu-check.d"), str(scripts / "gpu-session.d")]

from kineto import Observed, Profile

gpuspy, ours, theirs = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])


def said(folder):
    lines = (folder / "out.txt").read_text().splitlines()
    return json.loads(next(line for line in reversed(lines) if line.startswith('{"program"')))


printed = subprocess.run([gpuspy, "report", str(ours / "trace.gspy"), "--operations"], check=True, capture_output=True, text=True)
operations = [json.loads(line) for line in printed.stdout.splitlines()]
regions = said(ours)["regions"]
kernels = Observed(operations, said(ours)["region"]).kernels
profile = Profile(json.loads((theirs / "profile.json").read_text(), strict=False), said(theirs)["clocks"])
executed = sorted(profile.kernels, key=lambda kernel: kernel.start)
assert [kernel["normal"] for kernel in kernels] == [kernel.name for kernel in executed], "other launches"
pairs = defaultdict(lambda: defaultdict(list))
for kernel, other in zip(kernels, executed):
    # The kernel that all others wait behind differs by more than any of them lasts.
    if kernel["duration_ns"] and "spin_kernel" not in other.name:
        situation = sum(kernel["call_start_ns"] >= region for region in regions[1:3])
        pairs[situation][other.name].append((kernel["duration_ns"], other.duration))
for situation, by_name in sorted(pairs.items()):
    everything = [pair for these in by_name.values() for pair in these if pair[1] < 100_000]
    inside = sum(duration["lo"] <= cupti <= duration["hi"] for duration, cupti in everything)
    print(("queued", "each alone", "one after the other")[situation], f"- under 100 us: {inside} of {len(everything)} inside")
    for name, these in sorted(by_name.items(), key=lambda item: statistics.median(cupti for _, cupti in item[1])):
        cupti = [cupti for _, cupti in these]
        by = [statistics.median(duration[key] - cupti for duration, cupti in these) for key in ("lo", "value", "hi")]
        print(f"  {name[:48]:48} {len(these):4}  CUPTI {statistics.median(cupti):8.0f}  ours {by[0]:+7.0f} {by[1]:+7.0f} {by[2]:+7.0f}")
