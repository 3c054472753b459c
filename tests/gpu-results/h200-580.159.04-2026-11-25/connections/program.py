"""Does work on streams wait for others that it does not depend on? On some streams a kernel spins until the host sets a word, with
an event recorded behind it; then short kernels are launched on 24 other streams. Prints which of those were not over after 20 ms, for
each kind of event and number of spinning streams."""
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "scripts" / "gpu-probe.d"))

from cuda import DISABLE_TIMING, PTX_FLAG, SUCCESS, Context
from gates import Words

MOST, OTHERS = 48, 24
context = Context()
module = context.load(*PTX_FLAG)
wait, put = (context.get_function(module, name) for name in (b"probe_await_argns", b"probe_set_1us"))
words = Words(context, MOST + OTHERS + 4)
streams = [context.stream() for _ in range(MOST + OTHERS)]
words.set(0)
context.launch_with(streams[0], wait, 1_000_000, words.address(0), words.address(1))
context.launch_with(streams[0], put, words.address(2))
context.synchronize(streams[0])
found = {}
for kind in ("none", "timed", "untimed", "before and after"):
    for busy in (1, 2, 4, 7, 8, 9, 12, 16, 31, 32, 33, 48):
        words.clear()
        for stream in streams[:busy]:
            if kind == "before and after":
                context.record(context.event(), stream)
            context.launch_with(stream, wait, 60_000_000, words.address(0), words.address(1))
            if kind != "none":
                context.record(context.event(DISABLE_TIMING if kind == "untimed" else 0), stream)
        others = streams[MOST:]
        for at, stream in enumerate(others):
            context.launch_with(stream, put, words.address(4 + at))
        until, left = time.monotonic() + 0.02, set(range(OTHERS))
        while left and time.monotonic() < until:
            left = {at for at in left if context.driver.result("cuStreamQuery", others[at]) != SUCCESS}
        words.set(0)
        for stream in streams:
            context.synchronize(stream)
        found[f"{kind} {busy}"] = len(left)
print(os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS"), json.dumps({name: count for name, count in found.items() if count}))
