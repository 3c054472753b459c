"""How many entries does a stream take before the next call blocks, what counts as an entry, and what does
CUDA_SCALE_LAUNCH_QUEUES change?

The stream waits for a gate; a second thread opens the gate when a call has been stuck for some time.
"""
from children import child as ask
from children import is_quick
from cuda import DISABLE_TIMING, Context, CudaError
from gates import Gate, Stuck

MOST_CALLS = 6000
STUCK_SECONDS = 0.1 if is_quick() else 0.25
SCALES = ("1x", "0.25x", "4x")


def fill(cuda, gate, steps):
    """Repeats the steps on a gated stream until one blocks. Returns how many calls of each were accepted before."""
    stream = cuda.stream()
    counts = dict.fromkeys((name for name, _ in steps), 0)
    blocked_in = None
    try:
        with Stuck(gate, STUCK_SECONDS) as stuck:
            gate.close(stream)
            for n in range(MOST_CALLS):
                name, step = steps[n % len(steps)]
                stuck.call(step, stream)
                if stuck.was_stuck:
                    blocked_in = name
                    break
                counts[name] += 1
    finally:
        cuda.synchronize(stream)
    return {"blocked_in": blocked_in, "entered": counts, "total": sum(counts.values()), "limit": MOST_CALLS}


def questions(cuda):
    """Returns what is queued, by name, and what is queued before it."""
    events = [cuda.event() for _ in range(MOST_CALLS)]
    untimed = cuda.event(DISABLE_TIMING)
    upcoming = iter(events)
    launch = ("launch", lambda stream: cuda.launch(stream))
    arguments = ("launch with parameters", lambda stream: cuda.launch(stream, 1))
    record = ("record", lambda stream: cuda.record(next(upcoming), stream))
    record_one = ("record of one event", lambda stream: cuda.record(events[0], stream))
    record_untimed = ("record without timing", lambda stream: cuda.record(untimed, stream))
    found = {
        "launches": [launch],
        "records": [record],
        "record, launch, record": [record, launch, record],
        "launches with parameters": [arguments],
        "records of one event": [record_one],
        "records without timing": [record_untimed],
        "launch, launch, launch, record": [launch, launch, launch, record],
    }

    def again():
        nonlocal upcoming
        upcoming = iter(events)

    return found, again


def child(argument, report):
    """Runs all tests in this process's environment, with a wait for a value and with a kernel as the gate: the two
    kinds of things that a stream can wait for."""
    cuda = Context()
    found = {}
    steps, again = questions(cuda)
    for kind in ("value", "kernel"):
        try:
            gate = Gate(cuda, kind == "kernel", 200_000_000 if is_quick() else 3_000_000_000)
        except CudaError as error:
            found[kind] = {"error": str(error)}
            continue
        few = list(steps.items())[: 7 if kind == "value" and argument == "1x" else 3]
        for name, entries in few:
            again()
            try:
                found[f"{name}, behind a {kind}"] = fill(cuda, gate, entries)
            except (CudaError, StopIteration) as error:
                found[f"{name}, behind a {kind}"] = {"error": str(error) or type(error).__name__}
            report(found)


def run(report):
    found = {}
    for scale in SCALES:
        found[scale] = ask("queue_depth", scale, 20, CUDA_SCALE_LAUNCH_QUEUES=scale)
        report(found)


def words(found):
    lines = []
    for scale, rows in found.items():
        if isinstance(rows, dict):
            row_words = [f"{name} {row.get('total', row.get('error'))}" for name, row in rows.items() if isinstance(row, dict)]
            lines.append(f"queue {scale}: " + "; ".join(row_words))
    return lines
