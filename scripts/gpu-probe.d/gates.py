"""Gates: what a stream can wait for until the host opens it, and a thread that opens it if a call is stuck."""
import ctypes
import threading
import time
from ctypes import c_void_p

from cuda import PTX_FLAG

# cuda.h: CU_MEMHOSTALLOC_DEVICEMAP, CU_STREAM_WAIT_VALUE_GEQ
DEVICE_MAP, WAIT_GEQ = 2, 0


class Words:
    """Page-locked words that the host and the GPU share, each on a cache line of its own."""

    def __init__(self, cuda, count):
        self.cuda = cuda
        host = cuda.driver.out(c_void_p, "cuMemHostAlloc", 64 * count, DEVICE_MAP)
        self.device = cuda.driver.out(c_void_p, "cuMemHostGetDevicePointer_v2", host, 0)
        self._words = [ctypes.c_uint32.from_address(host + 64 * n) for n in range(count)]
        self.clear()

    def clear(self):
        for word in self._words:
            word.value = 0

    def address(self, n):
        """Returns a word's address on the GPU."""
        return self.device + 64 * n

    def get(self, n):
        return self._words[n].value

    def set(self, n):
        self._words[n].value = 1


class Gate:
    """What a stream waits for until the host opens it: a word in memory, or a kernel that spins.

    The kernel gives up after `give_up_ns`. Nothing waits for a gate to be opened: the code that closes it opens it,
    whatever happens.
    """

    def __init__(self, cuda, is_kernel=False, give_up_ns=3_000_000_000):
        self.cuda, self.is_kernel, self.give_up_ns = cuda, is_kernel, give_up_ns
        self.words = Words(cuda, 2)
        if is_kernel:
            self.function = cuda.get_function(cuda.load(*PTX_FLAG), b"probe_await_argns")
            self.open()
            stream = cuda.stream()
            self._launch(stream, 1_000)
            cuda.synchronize(stream)
        names = ("cuStreamWaitValue32_v2", "cuStreamWaitValue32")
        self.wait = next((name for name in names if cuda.driver.function(name)), None)

    def _launch(self, stream, ns):
        self.cuda.launch_with(stream, self.function, ns, self.words.address(0), self.words.address(1))

    def close(self, stream):
        self.words.clear()
        if self.is_kernel:
            self._launch(stream, self.give_up_ns)
        else:
            self.cuda.driver.call(self.wait, stream, self.words.address(0), 1, WAIT_GEQ)

    def open(self):
        self.words.set(0)


class Stuck:
    """Opens a gate if a call has been stuck for some time. Wrap each call: `with stuck.during():`."""

    def __init__(self, gate, seconds):
        self.gate, self.seconds = gate, seconds
        self.began, self.was_stuck = None, False
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def _watch(self):
        while not self._done.wait(0.01):
            began = self.began
            if began is not None and time.monotonic() - began > self.seconds:
                self.was_stuck = True
                self.gate.open()

    def __enter__(self):
        self._watcher.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._watcher.join()
        self.gate.open()

    def call(self, function, *arguments):
        """Makes the call, and returns the result with the seconds that it took."""
        self.began = began = time.monotonic()
        try:
            return function(*arguments), time.monotonic() - began
        finally:
            self.began = None
