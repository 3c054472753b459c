"""Which programs there are to try, and what each prints about itself.

A program prints one line of JSON on stdout:

    step_ns     median time of a step of its measured part
    region      [begin, end] of that part, ns on CLOCK_MONOTONIC_RAW
    clocks      two pairs [CLOCK_MONOTONIC_RAW, CLOCK_REALTIME] of the same moment, before and after that part
    launches    kernel launches in it, outside of graphs, where the program knows (else absent or null)
    kernels     the same by the kernels' names
    true_ns     medians of its kernels' durations by name, as measured on the GPU itself
    expect      {mode: {timed_share, busy_share}}: the least that the report of a run in that mode must show. Timed is the share of
                launches timed alone, in runs or in bursts; busy is the share of the time from the first operation to the last
    same        {what: number}: what must be the same in every mode as in a run without gpuspy
    versions    versions of the packages that it uses
    skip        instead of all that: why it cannot run here

A program that can be profiled accepts --profile FILE: it then runs its measured part under torch.profiler and writes
the trace there. All accept --quick, and then do less.
"""
import concurrent.futures
import importlib.util
import os
import shlex
import shutil
import sys

from runs import limited

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "programs")
# What each program imports, and the modes that it is run in: all modes if the program measures step times; few if it
# only shows what is recorded, since each mode takes time.
TIMED = ("plain", "exact", "auto", "off")
PROFILED = (*TIMED, "profiler", "profiler+exact")
SEEN = ("plain", "exact", "profiler+exact")
PYTHON_PROGRAMS = (
    ("driver_bound", (), TIMED),
    ("driver_captures", (), TIMED),
    ("torch_train", ("torch",), PROFILED),
    ("torch_loader", ("torch",), (*SEEN, "auto")),
    ("torch_server", ("torch",), SEEN),
    ("driver_small", (), TIMED),
    ("torch_nccl", ("torch",), SEEN),
    ("torch_graph", ("torch",), SEEN),
    ("triton_add", ("torch", "triton"), SEEN),
    ("torch_compile", ("torch", "triton"), SEEN),
    ("jax_steps", ("jax",), ("plain", "exact")),
    ("cupy_axpy", ("cupy",), ("plain", "exact")),
    ("numba_add", ("numba",), ("plain", "exact")),
    ("warp_axpy", ("warp",), ("plain", "exact")),
    ("taichi_scale", ("taichi",), ("plain", "exact")),
    ("pycuda_axpy", ("pycuda",), ("plain", "exact")),
)
# The most informative for its time first; programs that are not listed follow, in the order above.
ORDER = (
    "driver_bound",
    "driver_captures",
    "cuda_static",
    "torch_train",
    "torch_loader",
    "torch_server",
    "driver_small",
    "cuda_storm",
    "torch_nccl",
)
# Its rounds come before the next program's first one: the cost of gpuspy beside that of torch.profiler.
FIRST = ("torch_train",)


class Part:
    """A program to try, in these modes. With `is_first`, its rounds come before the programs that follow."""

    def __init__(self, name, command, modes=TIMED, is_first=False):
        self.name, self.command, self.modes, self.is_first = name, command, modes, is_first


def find_nvcc():
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places = [shutil.which("nvcc"), *(os.path.join(home, "bin", "nvcc") for home in homes if home)]
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


def compile_cuda(nvcc, runtime, output, seconds):
    """Builds cuda.cu with the static or the shared runtime. Returns the reason if that fails, or None."""
    source = os.path.join(PROGRAMS, "cuda.cu")
    # Linked with the folder of nvcc's shared runtime, which need not be on the loader's path.
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
    """Returns the CUDA C++ programs that could be built, and those that could not."""
    nvcc = find_nvcc()
    if not nvcc:
        return [], [{"what": "cuda_static, cuda_shared, cuda_storm", "why": "there is no nvcc"}]
    outputs = {runtime: os.path.join(build, f"cuda_{runtime}") for runtime in ("static", "shared")}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        built = pool.map(lambda runtime: compile_cuda(nvcc, runtime, outputs[runtime], seconds), outputs)
    parts, skipped = [], []
    for (runtime, output), why in zip(outputs.items(), built):
        if why:
            skipped.append({"what": f"cuda_{runtime}", "why": why})
            continue
        parts.append(Part(f"cuda_{runtime}", [output]))
        if runtime == "static":
            parts.append(Part("cuda_storm", [output, "storm"]))
    return parts, skipped


def python_parts():
    """Returns the Python programs whose packages are installed, and those whose are not."""
    parts, skipped = [], []
    for name, packages, modes in PYTHON_PROGRAMS:
        missing = [package for package in packages if importlib.util.find_spec(package) is None]
        if missing:
            skipped.append({"what": name, "why": f"python3 has no {', '.join(missing)}"})
        else:
            command = [sys.executable, "-B", os.path.join(PROGRAMS, f"{name}.py")]
            parts.append(Part(name, command, modes, name in FIRST))
    return parts, skipped


def named_part(text):
    """Returns the part that NAME=COMMAND describes."""
    name, equals, command = text.partition("=")
    if not (name and equals and command.strip()):
        raise ValueError(f"{text}: not NAME=COMMAND")
    words = shlex.split(command)
    # The command will run in a folder of its own.
    if "/" in words[0]:
        words[0] = os.path.abspath(words[0])
    return Part(name, words)


def find_parts(build, named, seconds):
    """Returns the programs to try in order of importance, and those that cannot be tried, with the reason."""
    cuda, no_cuda = cuda_parts(build, seconds)
    python, no_python = python_parts()
    place = {name: at for at, name in enumerate(ORDER)}
    there = sorted([*cuda, *python], key=lambda part: place.get(part.name, len(ORDER)))
    return [*named, *there], [*no_cuda, *no_python]
