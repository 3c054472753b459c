"""Which programs are there to try, and what does each say about itself?

A program prints one line of JSON on stdout:

    step_ns     median time of a step of its measured part
    region      [begin, end] of that part, ns on CLOCK_MONOTONIC_RAW
    clocks      two pairs [CLOCK_MONOTONIC_RAW, CLOCK_REALTIME] of the same moment, before and after that part
    launches    kernel launches in it, outside of graphs, where the program knows (else absent or null)
    kernels     the same by the kernels' names
    true_ns     medians of its kernels' durations by name, as measured on the GPU itself
    versions    of what it uses
    skip        instead of all that: why it cannot run here

One that is profiled takes --profile FILE: it then runs its measured part under torch.profiler and writes the trace there.
All take --quick, and do less.
"""
import importlib.util
import os
import shlex
import shutil
import sys

from runs import limited

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "programs")
# In order of importance; what each imports, and whether torch.profiler can watch it.
PYTHON_PROGRAMS = (
    ("torch_train", ("torch",), True),
    ("torch_graph", ("torch",), True),
    ("torch_compile", ("torch", "triton"), True),
    ("triton_add", ("torch", "triton"), True),
    ("cupy_axpy", ("cupy",), False),
    ("jax_steps", ("jax",), False),
    ("numba_add", ("numba",), False),
    ("warp_axpy", ("warp",), False),
    ("taichi_scale", ("taichi",), False),
    ("pycuda_axpy", ("pycuda",), False),
)


class Part:
    """A program to try."""

    def __init__(self, name, command, profiled=False):
        self.name, self.command, self.profiled = name, command, profiled


def find_nvcc():
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places = [shutil.which("nvcc"), *(os.path.join(home, "bin", "nvcc") for home in homes if home)]
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


def compile_cuda(nvcc, runtime, output, seconds):
    """Builds cuda.cu with the static or the shared runtime. Returns why not, or None."""
    source = os.path.join(PROGRAMS, "cuda.cu")
    # Beside the shared runtime that nvcc links against: it need not be where the loader looks.
    home = os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))
    places = [place for name in ("lib64", "lib") if os.path.isdir(place := os.path.join(home, name))]
    rpath = [word for place in places for word in ("-Xlinker", f"-rpath={place}")]
    words = "nvcc failed"
    # -arch=native came with CUDA 11.6.
    for architecture in (["-arch=native"], []):
        command = [nvcc, "-O2", "-std=c++17", "-cudart", runtime, *architecture, *rpath, source, "-o", output]
        built = limited.run(command, seconds)
        if built.code is None:
            return built.why
        if built.code == 0:
            return None
        words = built.last_error() or words
    return f"nvcc: {words}"


def cuda_parts(build, seconds):
    """The CUDA C++ programs that could be built, and what could not."""
    nvcc = find_nvcc()
    if not nvcc:
        return [], [{"what": "cuda_static, cuda_shared, cuda_storm", "why": "there is no nvcc"}]
    parts, skipped = [], []
    for runtime in ("static", "shared"):
        output = os.path.join(build, f"cuda_{runtime}")
        if why := compile_cuda(nvcc, runtime, output, seconds):
            skipped.append({"what": f"cuda_{runtime}", "why": why})
            continue
        parts.append(Part(f"cuda_{runtime}", [output]))
        if runtime == "static":
            parts.append(Part("cuda_storm", [output, "storm"]))
    return parts, skipped


def python_parts():
    """The Python programs whose packages are there, and those whose are not."""
    parts, skipped = [], []
    for name, packages, profiled in PYTHON_PROGRAMS:
        missing = [package for package in packages if importlib.util.find_spec(package) is None]
        if missing:
            skipped.append({"what": name, "why": f"python3 has no {', '.join(missing)}"})
        else:
            command = [sys.executable, "-B", os.path.join(PROGRAMS, f"{name}.py")]
            parts.append(Part(name, command, profiled))
    return parts, skipped


def named_part(text):
    """A part from NAME=COMMAND."""
    name, equals, command = text.partition("=")
    if not (name and equals and command.strip()):
        raise ValueError(f"{text}: not NAME=COMMAND")
    words = shlex.split(command)
    # It will run in a folder of its own.
    if "/" in words[0]:
        words[0] = os.path.abspath(words[0])
    return Part(name, words)


def find_parts(build, named, seconds):
    """Everything there is to try, in order of importance, and what there is not, with the reason."""
    cuda, no_cuda = cuda_parts(build, seconds)
    python, no_python = python_parts()
    return [*named, *cuda, *python], [*no_cuda, *no_python]
