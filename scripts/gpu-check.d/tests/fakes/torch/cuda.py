"""torch.cuda."""
import contextlib
import ctypes

from torch import device as on


def is_available():
    try:
        on.device()
    except on.driver.CudaError:
        return False
    return True


def synchronize():
    on.device().context.driver.call("cuCtxSynchronize")


class Stream:
    def __init__(self, handle=None):
        self.handle = on.device().context.stream() if handle is None else handle

    def wait_stream(self, other):
        context = on.device().context
        event = context.event()
        context.record(event, other.handle)
        context.driver.call("cuStreamWaitEvent", self.handle, event, 0)


def current_stream():
    return Stream(on.stream())


@contextlib.contextmanager
def stream(which):
    before = on.stream()
    on.set_stream(which.handle)
    yield
    on.set_stream(before)


class CUDAGraph:
    executable = None

    def replay(self):
        on.device().context.driver.call("cuGraphLaunch", self.executable, on.stream())


@contextlib.contextmanager
def graph(which):
    """Captures on a stream of its own."""
    context, captured, made = on.device().context, Stream(), ctypes.c_void_p()
    with stream(captured):
        context.driver.call("cuStreamBeginCapture_v2", captured.handle, 0)
        yield
        context.driver.call("cuStreamEndCapture", captured.handle, ctypes.byref(made))
    which.executable = context.driver.out(ctypes.c_void_p, "cuGraphInstantiateWithFlags", made.value, 0)
