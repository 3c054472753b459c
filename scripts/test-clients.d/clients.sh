# Sourced by scripts/test-clients.sh and scripts/test-pytorch.sh: installs clients of CUDA and observes them.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
script=$(basename "$0")
failed=()

die() {
    echo "$script: $*" >&2
    exit 1
}

# install NAME REQUIREMENTS MEGABYTES: makes downloads/NAME once, a virtual environment with exactly the packages that
# are pinned by hash in a file; it needs this many MB. Dependencies, such as NVIDIA's packages, are installed only if
# the file lists them.
install() {
    local folder=$root/downloads/$1 requirements=$2 megabytes=$3 began=$SECONDS python=python3.11 free
    if cmp -s "$requirements" "$folder/.complete"; then
        return
    fi
    command -v "$python" >/dev/null || python=python3
    [[ $("$python" -c 'import sys; print(*sys.version_info[:2])' 2>/dev/null) == "3 11" ]] ||
        die "$1 is pinned for Python 3.11, which is neither python3.11 nor python3 here"
    [[ $(uname -m) == x86_64 ]] || die "$1 is pinned for x86-64, and this is $(uname -m)"
    mkdir -p "$root/downloads"
    free=$(df --output=avail -BM "$root/downloads" | tr -dc 0-9)
    ((free >= megabytes)) || die "$1 needs $megabytes MB in $root/downloads, where $free are free: make room, then run this again"
    rm -rf "$folder"
    "$python" -m venv "$folder" || die "$python cannot make a virtual environment (is its venv module installed?)"
    pinned "$folder" "$requirements" ||
        die "pip could not install $1 (is PyPI reachable, and is there room in ${TMPDIR:-/tmp}?)"
    cp "$requirements" "$folder/.complete"
    echo "$1: installed in $((SECONDS - began)) s"
}

# build NAME SOURCES: compiles the sources that are pinned by hash in a file once, with and into downloads/NAME.
build() {
    local folder=$root/downloads/$1 sources=$2 began=$SECONDS
    if cmp -s "$sources" "$folder/.built"; then
        return
    fi
    pinned "$folder" "$sources" --no-build-isolation || die "pip could not build $1 (is PyPI reachable, and g++ installed?)"
    cp "$sources" "$folder/.built"
    echo "$1: built in $((SECONDS - began)) s"
}

# pinned FOLDER REQUIREMENTS [OPTION]...: runs pip for a virtual environment, with a file's packages and no others.
pinned() {
    "$1/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --no-compile --no-deps --require-hashes \
        -r "$2" "${@:3}"
}

# observe NAME COMMAND [ARGUMENT]...: runs a client under gpuspy on the simulated GPU, and adds it to `failed` if the
# report's counts differ from the truth. With PREPARE_ONLY=1, clients are only installed and built.
observe() {
    if [[ -n ${PREPARE_ONLY:-} ]]; then
        return
    fi
    timeout 300 python3 -B "$root/scripts/test-clients.d/against_truth.py" "$@" || failed+=("$1")
}

# finish: ends the script, and reports what has failed.
finish() {
    echo "$script: $SECONDS s"
    [[ ${#failed[@]} -eq 0 ]] || die "the report differs from what happened: ${failed[*]}"
}
