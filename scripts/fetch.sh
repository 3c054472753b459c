#!/usr/bin/env bash
# Downloads from PyPI into downloads/ (ignored by git), once:
#
#   scripts/fetch.sh [cuda]   NVIDIA's CUDA headers and runtime libraries:
#     downloads/cuda-12.9/{include,lib}   what the client programs compile against, and the runtime, shared and static
#     downloads/cuda-13/{include,lib}     the same for CUDA 13
#   scripts/fetch.sh tools    what links gpuspy for old systems, packs and checks it: downloads/tools
#
# Nothing of NVIDIA's is redistributed with this project. About 45 MB are transferred; only headers and runtimes are kept.
# The tools (zig, cargo-zigbuild, hatchling, auditwheel, pipx, uv) are about 130 MB.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
downloads=$root/downloads

# fetch DIR PACKAGE==VERSION...: makes downloads/DIR from the include/ and lib/ folders of the packages' wheels.
fetch() {
    local dir=$downloads/$1
    shift
    # The stamp names the contents and is written last, so that an interrupted download is repeated.
    if [[ -f $dir/.complete && $(cat "$dir/.complete") == "$*" ]]; then
        return
    fi
    local scratch
    scratch=$(mktemp -d -p "$downloads")
    # shellcheck disable=SC2064 # expands the path now
    trap "rm -rf '$scratch'" EXIT
    echo "fetch.sh: downloading $*" >&2
    if ! python3 -m pip download --quiet --no-deps --only-binary=:all: --dest "$scratch" "$@"; then
        echo "fetch.sh: pip could not download $* (is PyPI reachable, and pip installed for python3?)" >&2
        exit 1
    fi
    python3 - "$scratch" <<'PYTHON'
import pathlib, sys, zipfile

# A wheel contains nvidia/<component>/{include,lib}/...; compilers and libraries that are not used here are not
# unpacked.
scratch = pathlib.Path(sys.argv[1])
for wheel in scratch.glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            parts = pathlib.PurePosixPath(member.filename).parts
            keep = len(parts) > 3 and parts[0] == "nvidia" and (
                parts[2] == "include"
                or parts[2] == "lib" and parts[3].startswith(("libcudart", "libculibos"))
            )
            if keep and not member.is_dir():
                target = scratch.joinpath("tree", *parts[2:])
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(member))
PYTHON
    echo "$*" >"$scratch/tree/.complete"
    rm -rf "$dir"
    mv "$scratch/tree" "$dir"
    rm -rf "$scratch"
}

# tools PACKAGE==VERSION...: installs packages in a folder of their own.
tools() {
    local dir=$downloads/tools
    if [[ -f $dir/.complete && $(cat "$dir/.complete") == "$*" ]]; then
        return
    fi
    echo "fetch.sh: downloading $*" >&2
    rm -rf "$dir"
    if ! python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --only-binary=:all: --target "$dir" "$@"; then
        echo "fetch.sh: pip could not install $* (is PyPI reachable, and pip installed for python3?)" >&2
        exit 1
    fi
    echo "$*" >"$dir/.complete"
}

mkdir -p "$downloads"
if [[ ${1:-cuda} == tools ]]; then
    tools ziglang==0.17.1 cargo-zigbuild==0.24.0 hatchling==1.33.0 auditwheel==6.8.2 pipx==1.18.4 uv==0.13.9
    exit
fi
# The runtime's headers include crt/host_defines.h, which CUDA 12 ships with the compiler and CUDA 13 in a package of
# its own.
fetch cuda-12.9 nvidia-cuda-runtime-cu12==12.9.79 nvidia-cuda-nvcc-cu12==12.9.86 nvidia-nvtx-cu12==12.9.79
fetch cuda-13 nvidia-cuda-runtime==13.5.37 nvidia-cuda-crt==13.5.37
