"""Which calls fail while a stream is captured, and which of them end the capture? By the capture's mode, by the caller
(the capturing thread or another one, in its default mode or RELAXED), and by the object of the call (the captured
stream or another).

Each call has a capture of its own: begin, one launch, the call, end. The results of the call and of the end are the
answer; if the end fails, the call invalidated the capture.
"""
import ctypes
import threading
from ctypes import byref, c_int, c_uint64, c_void_p

from cuda import (
    CAPTURE_GLOBAL,
    CAPTURE_RELAXED,
    CAPTURE_THREAD_LOCAL,
    NON_BLOCKING,
    PTX,
    TIMING,
    Context,
    CudaError,
)

MODES = {"global": CAPTURE_GLOBAL, "thread-local": CAPTURE_THREAD_LOCAL, "relaxed": CAPTURE_RELAXED}
ASKERS = ("capturing thread", "capturing thread, relaxed", "another thread", "another thread, relaxed")


class Asked:
    """The objects of the calls: a stream that is captured, one that is not, and events of both."""

    def __init__(self, cuda):
        self.cuda = cuda
        self.captured, self.other = cuda.stream(), cuda.stream()
        self.ready, self.later = cuda.event(), cuda.event()
        self.inside = cuda.event()
        for event in (self.ready, self.later):
            cuda.record(event, self.other)
        cuda.synchronize(self.other)
        self._out = (c_uint64 * 16)()
        self.out = ctypes.addressof(self._out)

    def result(self, name, *arguments):
        return self.cuda.driver.result(name, *arguments)


def stream_questions(asked):
    """Calls about the captured stream and about another."""
    out = asked.out
    return {
        "cuStreamGetCtx": lambda stream: asked.result("cuStreamGetCtx", stream, out),
        "cuStreamGetFlags": lambda stream: asked.result("cuStreamGetFlags", stream, out),
        "cuStreamGetId": lambda stream: asked.result("cuStreamGetId", stream, out),
        "cuStreamGetPriority": lambda stream: asked.result("cuStreamGetPriority", stream, out),
        "cuStreamIsCapturing": lambda stream: asked.result("cuStreamIsCapturing", stream, out),
        "cuStreamQuery": lambda stream: asked.result("cuStreamQuery", stream),
        "cuStreamSynchronize": lambda stream: asked.result("cuStreamSynchronize", stream),
    }


def first_use(asked):
    """Uses a new stream for a launch."""
    stream = c_void_p()
    code = asked.result("cuStreamCreate", byref(stream), NON_BLOCKING)
    return code or asked.result("cuLaunchKernel", *asked.cuda.launch_arguments(stream.value))


def first_launch(asked):
    """Launches a kernel of a module that is loaded now: with lazy loading, its first launch loads it."""
    module, function = c_void_p(), c_void_p()
    code = asked.result("cuModuleLoadData", byref(module), PTX[0])
    code = code or asked.result("cuModuleGetFunction", byref(function), module, ctypes.c_char_p(b"probe_empty_1us"))
    return code or asked.result("cuLaunchKernel", *asked.cuda.launch_arguments(asked.other, function=function.value))


def new_event(asked, flags=TIMING):
    return asked.result("cuEventCreate", asked.out, flags)


def freed(asked):
    """Allocates and frees."""
    code = asked.result("cuMemAlloc_v2", asked.out, 4096)
    return code or asked.result("cuMemFree_v2", asked._out[0])


def other_questions(asked):
    """Calls about nothing in particular, or about an event of the stream that is not captured."""
    return {
        "cuEventQuery": lambda: asked.result("cuEventQuery", asked.ready),
        "cuStreamCreate": lambda: asked.result("cuStreamCreate", asked.out, NON_BLOCKING),
        "cuStreamCreate and first use": lambda: first_use(asked),
        "cuEventCreate": lambda: new_event(asked),
        "cuEventRecord": lambda: asked.result("cuEventRecord", asked.later, asked.other),
        "cuEventElapsedTime": lambda: asked.result("cuEventElapsedTime", asked.out, asked.ready, asked.ready),
        "cuEventSynchronize": lambda: asked.result("cuEventSynchronize", asked.ready),
        "cuEventQuery of the capture's event": lambda: asked.result("cuEventQuery", asked.inside),
        "launch": lambda: asked.result("cuLaunchKernel", *asked.cuda.launch_arguments(asked.other)),
        "load a module and launch": lambda: first_launch(asked),
        "cuMemAlloc and cuMemFree": lambda: freed(asked),
        "cuCtxGetCurrent": lambda: asked.result("cuCtxGetCurrent", asked.out),
        "cuCtxSynchronize": lambda: asked.result("cuCtxSynchronize"),
    }


def relaxed(cuda, question):
    """Makes the call in RELAXED mode, and restores the thread's own mode."""
    mode = c_int(CAPTURE_RELAXED)
    cuda.driver.call("cuThreadExchangeStreamCaptureMode", byref(mode))
    try:
        return question()
    finally:
        cuda.driver.call("cuThreadExchangeStreamCaptureMode", byref(mode))


def on_thread(cuda, question):
    """Makes the call in a thread of its own, which has the context current."""
    answers = []

    def ask():
        cuda.driver.call("cuCtxSetCurrent", cuda.handle)
        answers.append(question())

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return answers[0] if answers else "the thread failed"


def answer(asked, mode, asker, question):
    """Returns [what the call returned, what the end of the capture returned]."""
    cuda = asked.cuda
    ask = (lambda: relaxed(cuda, question)) if asker.endswith("relaxed") else question
    cuda.driver.call("cuStreamBeginCapture_v2", asked.captured, mode)
    graph = c_void_p()
    try:
        cuda.launch(asked.captured)
        cuda.record(asked.inside, asked.captured)
        code = on_thread(cuda, ask) if asker.startswith("another") else ask()
    finally:
        ended = cuda.driver.result("cuStreamEndCapture", asked.captured, byref(graph))
    if graph.value:
        cuda.driver.result("cuGraphDestroy", graph)
    return [code, ended]


def run(report):
    cuda = Context()
    asked = Asked(cuda)
    questions = {}
    for name, question in stream_questions(asked).items():
        for label, stream in (("captured stream", asked.captured), ("other stream", asked.other)):
            questions[f"{name}, {label}"] = lambda question=question, stream=stream: question(stream)
    questions.update(other_questions(asked))
    found = {}
    # Calls that wait come last: if one never returns, the others have been answered.
    for name, question in sorted(questions.items(), key=lambda item: "Synchronize" in item[0]):
        for mode, number in MODES.items():
            for asker in ASKERS:
                row = found.setdefault(name, {}).setdefault(mode, {})
                try:
                    row[asker] = answer(asked, number, asker, question)
                except (CudaError, AttributeError) as error:
                    row[asker] = {"error": str(error)}
        # Reported after each call, so that a call that crashes is recognized by its missing answer.
        report({"[call, end of capture]": found})


def describe(modes, chosen):
    """Describes, as briefly as possible, for which callers a call's results are of a kind."""
    lines = []
    for mode, askers in modes.items():
        who = [asker for asker, codes in askers.items() if isinstance(codes, list) and chosen(*codes)]
        if who:
            lines.append((mode, "all" if len(who) == len(askers) else ", ".join(who)))
    if len(lines) == len(modes) and len({who for _, who in lines}) == 1:
        return f"in every mode: {lines[0][1]}"
    return "; ".join(f"{mode}: {who}" for mode, who in lines)


def words(found):
    """Lists the calls that ended a capture, and those that failed without ending it, by mode of the capture and
    caller."""
    rows, lines = found["[call, end of capture]"], []
    for label, chosen in (
        ("ends the capture", lambda code, end: end != 0),
        ("fails, and the capture lives", lambda code, end: end == 0 and code != 0),
    ):
        lines += [f"{name} {label}; {who}" for name, modes in rows.items() if (who := describe(modes, chosen))]
    return lines or ["no question failed, or ended a capture"]
