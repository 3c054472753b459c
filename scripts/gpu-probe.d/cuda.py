"""The CUDA driver through ctypes: a context, streams, events, and kernels that run for a given time."""
import ctypes
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_uint64, c_void_p

# cuda.h: CUresult
SUCCESS, NOT_READY = 0, 600
# cuda.h: CUdevice_attribute
CLOCK_RATE_KHZ, CAPABILITY_MAJOR, CAPABILITY_MINOR = 13, 75, 76
# cuda.h: CUevent_flags, CUstream_flags
TIMING, DISABLE_TIMING, NON_BLOCKING = 0, 2, 1
# cuda.h: CUstreamCaptureMode
CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL, CAPTURE_RELAXED = 0, 1, 2

# The simulated driver takes a kernel's duration from its name (`_argns`: from its first argument). On hardware the loop
# counts SM clock cycles, from nanoseconds and the clock rate in kHz.
_SPIN = """
.visible .entry %(name)s(.param .u64 ns, .param .u64 khz)
{
    .reg .u64 %%n, %%k, %%cycles, %%start, %%now, %%gone;
    .reg .pred %%more;
    %(first)s
    ld.param.u64 %%n, [ns];
    ld.param.u64 %%k, [khz];
    mul.lo.u64 %%cycles, %%n, %%k;
    div.u64 %%cycles, %%cycles, 1000000;
    mov.u64 %%start, %%clock64;
AGAIN:
    mov.u64 %%now, %%clock64;
    sub.u64 %%gone, %%now, %%start;
    setp.lt.u64 %%more, %%gone, %%cycles;
    @%%more bra AGAIN;
    ret;
}
"""
# The two kernels that every probe has.
EMPTY, SPIN = "probe_empty_1us", "probe_spin_argns"
_EMPTY = ".visible .entry probe_empty_1us()\n{\n    ret;\n}\n"


# One kernel's thread waits until a word in memory is not 0, and gives up after `ns` of the GPU's timer, so that nothing
# hangs; another kernel sets such a word. Both write to a second word that they ran: 1 if the flag was observed (or
# set), 2 if the first gave up. The simulated driver runs no code: there the first one lasts `ns`, and no word is
# written.
_FLAG = """
.visible .entry probe_await_argns(.param .u64 ns, .param .u64 flag, .param .u64 told)
{
    .reg .u64 %n, %f, %t, %start, %now, %gone;
    .reg .u32 %seen;
    .reg .pred %set, %more;
    ld.param.u64 %n, [ns];
    ld.param.u64 %f, [flag];
    ld.param.u64 %t, [told];
    mov.u64 %start, %globaltimer;
AGAIN:
    ld.volatile.u32 %seen, [%f];
    setp.ne.u32 %set, %seen, 0;
    @%set bra SEEN;
    mov.u64 %now, %globaltimer;
    sub.u64 %gone, %now, %start;
    setp.lt.u64 %more, %gone, %n;
    @%more bra AGAIN;
    st.volatile.u32 [%t], 2;
    membar.sys;
    ret;
SEEN:
    st.volatile.u32 [%t], 1;
    membar.sys;
    ret;
}
.visible .entry probe_set_1us(.param .u64 flag)
{
    .reg .u64 %f;
    ld.param.u64 %f, [flag];
    st.volatile.u32 [%f], 1;
    membar.sys;
    ret;
}
"""


def _module(version, target, body):
    return f".version {version}\n.target {target}\n.address_size 64\n{body}".encode() + b"\0"


PTX = [
    _module(version, target, _EMPTY + _SPIN % {"name": SPIN, "first": ""})
    for version, target in (("7.0", "sm_70"), ("8.0", "sm_90"))
]
PTX_FLAG = [_module(version, target, _FLAG) for version, target in (("7.0", "sm_70"), ("8.0", "sm_90"))]
# Its dependents may start as soon as it has started, which a programmatic launch needs to overlap (PTX 7.8, sm_90). The
# simulated driver reads "after 1 % of its length" in the name.
PTX_TRIGGER = _module(
    "7.8", "sm_90", _SPIN % {"name": "probe_trigger1_argns", "first": "griddepcontrol.launch_dependents;"}
)


class CudaError(Exception):
    """A driver call that did not return success."""

    def __init__(self, function, code):
        super().__init__(f"{function} returned {code}")
        self.code = code


def integer(value):
    """Converts a Python integer to a 64-bit argument; returns anything else unchanged."""
    return (c_int64 if value < 0 else c_uint64)(value) if isinstance(value, int) else value


class Driver:
    """libcuda.so.1, initialized."""

    def __init__(self, initialise=True):
        self.library = ctypes.CDLL("libcuda.so.1")
        if initialise:
            self.call("cuInit", 0)

    def function(self, name):
        """Returns a function's address, or None if the driver does not export it."""
        try:
            return ctypes.cast(getattr(self.library, name), c_void_p).value
        except AttributeError:
            return None

    def result(self, name, *arguments):
        """Calls a function and returns its CUresult."""
        return getattr(self.library, name)(*map(integer, arguments))

    def call(self, name, *arguments):
        """Calls a function that must succeed."""
        code = self.result(name, *arguments)
        if code != SUCCESS:
            raise CudaError(name, code)

    def out(self, kind, name, *arguments):
        """Calls a function whose first argument is an out-parameter of this ctypes kind, and returns the value."""
        value = kind()
        self.call(name, byref(value), *arguments)
        return value.value

    def version(self):
        return self.out(c_int, "cuDriverGetVersion")

    def device_name(self, device=0):
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, 256, device)
        return name.value.decode(errors="replace")


class Context:
    """The first device's primary context, current on this thread, with the probe's kernels loaded."""

    def __init__(self):
        self.driver = driver = Driver()
        self.device = driver.out(c_int, "cuDeviceGet", 0)
        self.handle = driver.out(c_void_p, "cuDevicePrimaryCtxRetain", self.device)
        driver.call("cuCtxSetCurrent", self.handle)
        # CUDA 13's devices may not report their clock rate; 1.98 GHz is the H200's boost clock.
        try:
            self.khz = driver.out(c_int, "cuDeviceGetAttribute", CLOCK_RATE_KHZ, self.device) or 1_980_000
        except CudaError:
            self.khz = 1_980_000
        module = self.load(*PTX)
        self.empty_function = self.get_function(module, EMPTY.encode())
        self.spin_function = self.get_function(module, SPIN.encode())
        self._kept = []
        self._load_kernels()

    def _load_kernels(self):
        """Launches each kernel once. A kernel that is loaded lazily may have to wait for running kernels, so a probe
        that first launches it behind a gate would wait for itself."""
        stream = self.stream()
        self.launch(stream)
        self.launch(stream, 1_000)
        self.synchronize(stream)

    def load(self, *images):
        """Loads the first of the images that the driver accepts."""
        for image in images:
            try:
                return self.driver.out(c_void_p, "cuModuleLoadData", image)
            except CudaError as error:
                last = error
        raise last

    def get_function(self, module, name):
        return self.driver.out(c_void_p, "cuModuleGetFunction", module, c_char_p(name))

    def capability(self):
        read = lambda which: self.driver.out(c_int, "cuDeviceGetAttribute", which, self.device)
        return read(CAPABILITY_MAJOR) * 10 + read(CAPABILITY_MINOR)

    def stream(self):
        return self.driver.out(c_void_p, "cuStreamCreate", NON_BLOCKING)

    def event(self, flags=TIMING):
        return self.driver.out(c_void_p, "cuEventCreate", flags)

    def spin_parameters(self, ns):
        """Returns the kernel parameter array for a spin of `ns`; it is kept alive with the context."""
        return self.parameters(ns, self.khz)

    def parameters(self, *values):
        """Returns the kernel parameter array for 64-bit values; it is kept alive with the context."""
        words = (c_uint64 * len(values))(*values)
        pointers = (c_void_p * len(values))(*(ctypes.addressof(words) + 8 * n for n in range(len(values))))
        self._kept += [words, pointers]
        return ctypes.addressof(pointers)

    def launch_with(self, stream, function, *values):
        """Launches one thread of a kernel whose parameters are 64-bit values."""
        self.driver.call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, stream, self.parameters(*values), 0)

    def launch_arguments(self, stream, ns=None, function=None):
        """Returns cuLaunchKernel's arguments for one thread of the spin kernel, or of the empty kernel without `ns`."""
        if ns is None:
            return (function or self.empty_function, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0)
        return (function or self.spin_function, 1, 1, 1, 1, 1, 1, 0, stream, self.spin_parameters(ns), 0)

    def launch(self, stream, ns=None, function=None):
        self.driver.call("cuLaunchKernel", *self.launch_arguments(stream, ns, function))

    def record(self, event, stream):
        self.driver.call("cuEventRecord", event, stream)

    def synchronize(self, stream):
        self.driver.call("cuStreamSynchronize", stream)

    def elapsed_ms(self, start, end, function="cuEventElapsedTime"):
        return self.driver.out(ctypes.c_float, function, start, end)

    def elapsed_ns(self, start, end):
        return round(self.elapsed_ms(start, end) * 1e6)


class LaunchAttribute(ctypes.Structure):
    """cuda.h: CUlaunchAttribute. Only attributes whose value is an int are used here."""

    _fields_ = [("id", c_int), ("pad", c_int), ("value", c_int), ("rest", c_int * 15)]


class LaunchConfig(ctypes.Structure):
    """cuda.h: CUlaunchConfig."""

    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", c_void_p),
        ("attributes", POINTER(LaunchAttribute)),
        ("count", ctypes.c_uint),
    ]


PROGRAMMATIC_STREAM_SERIALIZATION = 6  # cuda.h: CUlaunchAttributeID
