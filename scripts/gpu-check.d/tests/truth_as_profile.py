"""Runs a client program on the simulated GPU and writes its truth in the form in which torch.profiler writes CUPTI's
results.

    truth_as_profile.py COMMAND [ARGUMENT]... [--profile FILE]
"""
import json
import os
import subprocess
import sys
import tempfile

# Kineto's base is a multiple of this: recent enough that the time since then in µs can represent whole ns.
BASE_STEP = 10**15


def document(said, truth):
    """Returns a Kineto trace: real time in µs since a base, streams numbered in its own way."""
    (raw, real), _ = said["clocks"]
    base = real - real % BASE_STEP
    events = []
    for line in truth:
        if line["kind"] != "kernel" or not said["region"][0] <= line["call_begin"] <= said["region"][1]:
            continue
        if line["captured"]:
            continue
        # A graph's kernels belong to one launch.
        correlation, launcher = (line["in_graph"], "cuGraphLaunch") if line["in_graph"] else (line["seq"], "cuLaunchKernel")
        args = {"stream": 100 + line["stream"], "correlation": correlation}
        shown = {"ph": "X", "args": args, "dur": (line["end"] - line["start"]) / 1000}
        start = line["start"] - raw + real
        events.append({**shown, "cat": "kernel", "name": line["name"], "ts": (start - base) / 1000})
        events.append({**shown, "cat": "cuda_driver", "name": launcher, "ts": (start - base) / 1000 - 9})
    return {"baseTimeNanoseconds": base, "traceEvents": events}


def main():
    command, profile = sys.argv[1:], None
    if "--profile" in command:
        at = command.index("--profile")
        profile = command[at + 1]
        del command[at : at + 2]
    with tempfile.TemporaryDirectory() as folder:
        truth = os.path.join(folder, "truth.jsonl")
        environment = {**os.environ, "SIMCUDA_TRUTH": truth} if profile else None
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        if profile:
            with open(truth, encoding="utf-8") as file, open(profile, "w", encoding="utf-8") as out:
                json.dump(document(json.loads(done.stdout), map(json.loads, file)), out)
    print(done.stdout, end="")


if __name__ == "__main__":
    main()
