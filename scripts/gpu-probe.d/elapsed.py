"""cuEventElapsedTime: its sign and rounding, and the resolution of the events' clock."""
import collections
import ctypes
import math
import random
import struct
import time

from children import is_quick
from cuda import Context, CudaError


def f32(value):
    """Returns the nearest 32-bit float."""
    return struct.unpack("f", struct.pack("f", value))[0]


MILLIONTH = f32(1e-6)


# Units of event timestamps that have been reported for GPUs.
UNITS = (2, 4, 8, 16, 32, 64, 100, 128, 256, 500, 512, 1000, 1024, 2000, 2048)


def formula(ms):
    """Returns which formulas give this float for some whole number of nanoseconds: n / 1e6 rounded once, or n *
    1e-6f."""
    near = range(math.floor(ms * 1e6) - 2, math.ceil(ms * 1e6) + 3)
    divided = any(f32(n / 1e6) == ms for n in near)
    multiplied = any(f32(f32(n) * MILLIONTH) == ms for n in near)
    return {(True, True): "both", (True, False): "divided", (False, True): "multiplied"}.get(
        (divided, multiplied), "neither"
    )


def signs(cuda, stream):
    first, second = cuda.event(), cuda.event()
    cuda.record(first, stream)
    cuda.launch(stream, 100_000)
    cuda.record(second, stream)
    cuda.synchronize(stream)
    found = {}
    for name in ("cuEventElapsedTime", "cuEventElapsedTime_v2"):
        if cuda.driver.function(name):
            found[name] = {}
            for label, pair in (("forward", (first, second)), ("swapped", (second, first)), ("same", (first, first))):
                value = ctypes.c_float(math.nan)
                code = cuda.driver.result(name, ctypes.byref(value), *pair)
                found[name][label] = {"result": code, "ms": value.value if value.value == value.value else None}
    return found


def rounding(cuda, stream):
    """Measures many pairs of events between spins of many lengths, up to a few tens of milliseconds apart."""
    randomly = random.Random(1)
    events = [cuda.event() for _ in range(400)]
    for event in events:
        cuda.record(event, stream)
        cuda.launch(stream, randomly.randrange(1_000, 120_000))
    cuda.synchronize(stream)
    formulas, steps, common, v2_differs = collections.defaultdict(collections.Counter), [], 0, 0
    odd = []
    has_v2 = bool(cuda.driver.function("cuEventElapsedTime_v2"))
    for _ in range(6000):
        a, b = sorted(randomly.sample(range(len(events)), 2))
        ms = cuda.elapsed_ms(events[a], events[b])
        ns = round(ms * 1e6)
        if has_v2:
            v2_differs += cuda.elapsed_ms(events[a], events[b], "cuEventElapsedTime_v2") != ms
        magnitude = "below_9ms" if ms < 9 else "9_to_16ms" if ms < 16 else "above_16ms"
        which = formula(ms)
        formulas[magnitude][which] += 1
        if which == "neither" and len(odd) < 10:
            odd.append(ms.hex())
        if 0 < ms < 9:
            common = math.gcd(common, ns)
            steps.append(ns)
    mod = collections.Counter(ns % 32 for ns in steps)
    # Additivity is exact if every event has one timestamp and the quotient is exact.
    sums = 0
    for n in range(0, len(events) - 2, 2):
        a, b, c = events[n : n + 3]
        sums += cuda.elapsed_ns(a, b) + cuda.elapsed_ns(b, c) != cuda.elapsed_ns(a, c)
    return {
        "formula": {magnitude: dict(counter) for magnitude, counter in formulas.items()},
        "examples_of_neither": odd,
        "greatest_common_divisor_ns": common,
        "ns_modulo_32": dict(sorted(mod.items())),
        "sums_that_do_not_add_up": sums,
        "v2_differs": v2_differs if has_v2 else None,
    }


def resolution(cuda, stream):
    """Returns differences of events recorded back to back after a spin: nothing runs between them."""
    differences = collections.Counter()
    for _ in range(4):
        events = [cuda.event() for _ in range(200)]
        cuda.launch(stream, 3_000_000)
        for event in events:
            cuda.record(event, stream)
        cuda.synchronize(stream)
        differences.update(cuda.elapsed_ns(a, b) for a, b in zip(events, events[1:]))
    steps = {abs(d) for d in differences if d}
    return {
        # The greatest common divisor of all distances: the unit of the timestamps.
        "common_divisor_ns": math.gcd(*steps) if steps else None,
        "multiples_of": {unit: sum(n for d, n in differences.items() if d % unit == 0) for unit in UNITS},
        "differences": sum(differences.values()),
        "smallest_not_zero_ns": min((d for d in differences if d), default=None),
        "most_common_ns": differences.most_common(16),
        "distinct": len(differences),
    }


def recorded(cuda, stream):
    """Returns an event that has fired, and two moments on the host's clock between which it fired."""
    event, before = cuda.event(), host_ns()
    cuda.record(event, stream)
    cuda.synchronize(stream)
    return event, before, host_ns()


def host_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def idle_hops(cuda, stream):
    """Compares elapsed time across an idle stream with the host's clock, in parts per million."""
    found = []
    for seconds in (0.02, 0.2, 1.0) if is_quick() else (0.02, 0.2, 1.0, 5.0):
        first, first_before, first_seen = recorded(cuda, stream)
        time.sleep(seconds)
        second, second_before, second_seen = recorded(cuda, stream)
        ms = cuda.elapsed_ms(first, second)
        host = (second_before - first_seen, second_seen - first_before)
        ppm = [round((ms * 1e6 / ns - 1) * 1e6, 2) for ns in reversed(host)]
        found.append({"host_ns": host, "ms": ms, "step_ns": (next_float(ms) - ms) * 1e6, "drift_ppm": ppm})
    return found


def next_float(ms):
    return struct.unpack("f", struct.pack("I", struct.unpack("I", struct.pack("f", ms))[0] + 1))[0]


def run(report):
    cuda = Context()
    stream = cuda.stream()
    cuda.launch(stream, 1_000)  # the first launch loads the module
    cuda.synchronize(stream)
    found = {}
    for name, part in (("sign", signs), ("rounding", rounding), ("resolution", resolution), ("idle", idle_hops)):
        try:
            found[name] = part(cuda, stream)
        except CudaError as error:
            found[name] = {"error": str(error)}
        report(found)


def words(found):
    at, rounding_ = found["resolution"], found["rounding"]
    return [
        f"events are stamped in multiples of {at['common_divisor_ns']} ns"
        f" (between spins {rounding_['greatest_common_divisor_ns']}); smallest step {at['smallest_not_zero_ns']} ns",
        f"formula of the ms: {rounding_['formula']}",
        f"swapped events: {found['sign']['cuEventElapsedTime']['swapped']}",
        f"GPU clock against the host's, ppm, between {' and '.join(map(str, found['idle'][-1]['drift_ppm']))}",
    ]
