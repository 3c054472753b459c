"""Builds what PyTorch's libraries need to load without NVIDIA's: for each NVIDIA library that they name, one that
exports the symbols they leave undefined, with the versions they require. A stub prints its name and ends the process
when called.

    stubs.py FOLDER_OF_LIBRARIES OUTPUT_FOLDER [SONAME=SOURCE.c]...

The definitions in a library's SOURCE replace its stubs.
"""
import os
import re
import subprocess
import sys

# For references without a version: NVIDIA's libraries by how their functions' names begin, longer prefixes first.
PREFIXES = [
    ("cusparseLt", "libcusparseLt.so.0"),
    ("cusparse", "libcusparse.so.12"),
    ("nccl", "libnccl.so.2"),
    ("cuFile", "libcufile.so.0"),
]
NVIDIA = ("libcu", "libnv", "libnccl")
# simcuda and simcudart provide these.
THERE = ("libcuda.so.1", "libcudart.so.12")

STUBS = """#include <stdio.h>
#include <stdlib.h>
#define STUB(name) __attribute__((weak)) void name(void) { \\
        fputs(#name " was called, of which " LIBRARY " here is only a stub\\n", stderr); \\
        abort(); \\
    }
"""


def readelf(option, path):
    done = subprocess.run(["readelf", "-W", option, path], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def needed(path):
    """Returns the NVIDIA libraries that a library names."""
    names = (re.search(r"\(NEEDED\).*\[(.*)\]", line) for line in readelf("--dynamic", path))
    return {name[1] for name in names if name and name[1].startswith(NVIDIA) and name[1] not in THERE}


def undefined(path):
    """Returns the (name, version) of each symbol that it does not define itself; an empty version if it requires
    none."""
    # Columns: number, value, size, type, binding, visibility, section, name@version.
    columns = (line.split() for line in readelf("--dyn-syms", path))
    for name in (parts[7] for parts in columns if len(parts) > 7 and parts[6] == "UND"):
        symbol, _, version = name.partition("@")
        yield symbol, version


def owner(symbol, version):
    """Returns the library in which a symbol is looked up: NVIDIA's versions have their libraries' names."""
    return version or next((library for prefix, library in PREFIXES if symbol.startswith(prefix)), None)


def build(library, symbols, source, output):
    place = os.path.join(output, library)
    with open(f"{place}.c", "w", encoding="utf-8") as file:
        print(f'#define LIBRARY "{library}"\n{STUBS}', *(f"STUB({symbol})" for symbol in sorted(symbols)), sep="\n", file=file)
    with open(f"{place}.map", "w", encoding="utf-8") as file:
        print(f"{library} {{ global: cu*; nccl*; nv*; local: *; }};", file=file)
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror", f"-Wl,-soname,{library}", f"-Wl,--version-script={place}.map"]
    sources = [f"{place}.c", *([source] if source else [])]
    subprocess.run(["gcc", *flags, *sources, "-o", place, "-lpthread", "-ldl"], check=True)


def main():
    folder, output, *own = sys.argv[1:]
    sources = dict(pair.split("=", 1) for pair in own)
    paths = [os.path.join(folder, name) for name in os.listdir(folder) if ".so" in name]
    symbols = {library: set() for path in paths for library in needed(path)}
    for path in paths:
        for symbol, version in undefined(path):
            symbols.get(owner(symbol, version), set()).add(symbol)
    os.makedirs(output, exist_ok=True)
    for library, names in symbols.items():
        build(library, names, sources.get(library), output)


if __name__ == "__main__":
    main()
