"""Do streams wait for each other that have no dependency? A kernel spins on the first stream until the host sets its
flag; short kernels are launched on forty others. Those that end meanwhile are independent; those that have not ended
after half a second are behind the first stream: they share a hardware queue with it.

Tested with no event, a timed event and an untimed one recorded after the spinning kernel, and with 1, 8 and 32
connections.
"""
import time

from children import child as ask
from children import is_quick
from cuda import DISABLE_TIMING, PTX_FLAG, SUCCESS, Context
from gates import Words

STREAMS = 40
CONNECTIONS = ("8", "1", "32")
EVENTS = ("no event", "timed event", "untimed event")


class Probe:
    """The loaded kernels, the streams, and a word for each kernel."""

    def __init__(self):
        self.cuda = cuda = Context()
        module = cuda.load(*PTX_FLAG)
        self.wait = cuda.get_function(module, b"probe_await_argns")
        self.set = cuda.get_function(module, b"probe_set_1us")
        # Word 0: the flag; 1: the spinning kernel's result; from 2 on: set by the others.
        self.words = Words(cuda, STREAMS + 2)
        self.streams = [cuda.stream() for _ in range(STREAMS + 1)]
        self.half_second, self.give_up_ns = (0.05, 150_000_000) if is_quick() else (0.5, 2_000_000_000)
        # Loads everything before anything spins, since loading may wait for running kernels.
        self.words.set(0)
        self.spin(self.streams[0])
        cuda.launch_with(self.streams[0], self.set, self.words.address(2))
        cuda.synchronize(self.streams[0])

    def spin(self, stream, ns=1_000_000):
        self.cuda.launch_with(stream, self.wait, ns, self.words.address(0), self.words.address(1))

    def is_done(self, stream):
        return self.cuda.driver.result("cuStreamQuery", stream) == SUCCESS

    def ask(self, events):
        """Returns which of the streams 1 to 40 ended while the kernel on stream 0 was spinning, and which did not."""
        cuda, words = self.cuda, self.words
        kinds = {"timed event": cuda.event(), "untimed event": cuda.event(DISABLE_TIMING)}
        words.clear()
        began = time.monotonic()
        self.spin(self.streams[0], self.give_up_ns)
        if events in kinds:
            cuda.record(kinds[events], self.streams[0])
        for n in range(1, STREAMS + 1):
            cuda.launch_with(self.streams[n], self.set, words.address(n + 1))
        launched = time.monotonic()
        waiting = set(range(1, STREAMS + 1))
        while waiting and time.monotonic() - launched < self.half_second and not self.is_done(self.streams[0]):
            waiting = {n for n in waiting if not self.is_done(self.streams[n])}
        ended = time.monotonic()
        words.set(0)
        for stream in self.streams:
            cuda.synchronize(stream)
        return {
            "behind_stream_0": sorted(waiting),
            "launch_ms": round((launched - began) * 1e3, 3),
            "waited_ms": round((ended - launched) * 1e3, 3),
            # 1 and STREAMS on hardware; 0 where kernels write nothing, as on the simulated GPU.
            "spinning_kernel_told": words.get(1),
            "others_ran": sum(words.get(n + 1) for n in range(1, STREAMS + 1)),
        }


def child(_, report):
    probe, found = Probe(), {}
    for events in EVENTS:
        found[events] = probe.ask(events)
        report(found)


def run(report):
    found = {}
    for connections in CONNECTIONS:
        found[connections] = ask("aliases", connections, 15, CUDA_DEVICE_MAX_CONNECTIONS=connections)
        report(found)


def words(found):
    lines = []
    for connections, rows in found.items():
        for events, row in rows.items() if isinstance(rows, dict) else ():
            if isinstance(row, dict):
                behind = row["behind_stream_0"]
                which = f"{len(behind)} of {STREAMS} wait: {behind[:12]}" if behind else "none waits"
                lines.append(f"{connections} connections, {events}: {which}")
    return lines
