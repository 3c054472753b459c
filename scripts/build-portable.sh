#!/usr/bin/env bash
# Builds gpuspy as users get it: it runs on systems much older than this one, because zig links it against the functions
# of an old glibc. The agent is a guest in programs that choose their system, so it needs least.
#
#   scripts/build-portable.sh [--target ARCHITECTURE [--tests]]   x86_64 or aarch64; this machine's without it
#
#   target/glibc-2.17/ARCHITECTURE-unknown-linux-gnu/release/libgpuspy.so    the oldest that Rust's standard library runs on
#   target/glibc-2.28/ARCHITECTURE-unknown-linux-gnu/release/*               gpuspy, libsimcuda.so, and for this machine (for
#                                                                            another with --tests) all else that tests need: they
#                                                                            run on what users get
#   target/ARCHITECTURE/tests/*                                              with --tests, the tests that scripts/check-arm runs
#
# With GPUSPY_BUILT=1, which scripts/test.sh sets, nothing is built for this machine: it has been.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=$root/target
tools=$root/downloads/tools
architecture=$(uname -m)
if [[ ${1:-} == --target ]]; then
    architecture=$2
fi
if [[ -n ${GPUSPY_BUILT:-} && $architecture == $(uname -m) ]]; then
    exit
fi
triple=$architecture-unknown-linux-gnu
"$root/scripts/fetch.sh" tools

# Code that libgcc_s unwinds has to ask the same library about its frames, so ours is linked against that; zig would put
# another unwinder into it. Any build of libgcc_s has these functions, so an empty one stands for it while linking. (The
# agent binds them by itself: agent/src/loader/late.rs.)
versions='
GCC_3.0 { global: _Unwind_DeleteException; _Unwind_Find_FDE; _Unwind_ForcedUnwind; _Unwind_GetDataRelBase; _Unwind_GetGR;
    _Unwind_GetIP; _Unwind_GetLanguageSpecificData; _Unwind_GetRegionStart; _Unwind_GetTextRelBase; _Unwind_RaiseException;
    _Unwind_Resume; _Unwind_SetGR; _Unwind_SetIP; };
GCC_3.3 { global: _Unwind_Backtrace; _Unwind_FindEnclosingFunction; _Unwind_GetCFA; _Unwind_Resume_or_Rethrow; } GCC_3.0;
GCC_4.2.0 { global: _Unwind_GetIPInfo; } GCC_3.3;'
# Cargo does not notice that it changed, but that its path did.
unwinder=$target/unwinder/$architecture-$(cksum <<<"$versions" | cut -d' ' -f1)/libgcc_s.so.1
if [[ ! -f $unwinder ]]; then
    mkdir -p "${unwinder%/*}"
    grep -o '_Unwind_[A-Za-z_]*' <<<"$versions" | sed 's/.*/void &(void) {}/' >"$unwinder.c"
    echo "$versions" >"$unwinder.map"
    "$tools/ziglang/zig" cc -target "$architecture-linux-gnu" -shared -nostdlib -o "$unwinder" "$unwinder.c" \
        -Wl,-soname,libgcc_s.so.1 -Wl,--version-script="$unwinder.map"
fi

# build GLIBC OPTION ... (each in a folder of its own: what is linked for another glibc counts as changed)
build() {
    PATH=$tools/bin:$PATH CARGO_ZIGBUILD_ZIG_PATH=$tools/ziglang/zig cargo zigbuild --quiet --release \
        --manifest-path "$root/Cargo.toml" --target-dir "$target/glibc-$1" --target "$triple.$1" \
        --config "build.rustflags=[\"-Clink-arg=$unwinder\"]" "${@:2}"
}
# keep_tests: copies the tests that cargo has built, as it says, to where scripts/check-arm finds them. Those in a crate have the name
# of its folder.
as_json=(--message-format json-render-diagnostics)
keep_tests() {
    python3 -c 'import json, os, shutil, sys
os.makedirs(sys.argv[1], exist_ok=True)
for message in map(json.loads, sys.stdin):
    if message.get("executable") and message["profile"]["test"]:
        folder, of = os.path.basename(os.path.dirname(message["manifest_path"])), message["target"]
        name = of["name"] if of["kind"] == ["test"] else folder
        shutil.copy(message["executable"], os.path.join(sys.argv[1], name))' "$target/$architecture/tests"
}
if [[ ! -e $target/glibc-2.28/$triple/release/gpuspy ]]; then
    echo "${0##*/}: compiling gpuspy; the first time, this takes about ten minutes on two cores"
fi
# Optimizing the agent across crates saves 4 % of the instructions of a timed launch (scripts/count-instructions). Of the rest nearly all
# is one crate, from which several programs are linked: it is compiled once, in one piece.
whole=(--config 'profile.release.lto="off"' --config profile.release.codegen-units=1)
if [[ $architecture == $(uname -m) ]]; then
    build 2.17 -p gpuspy-agent
    build 2.28 "${whole[@]}" --workspace --exclude gpuspy-agent --exclude gpuspy-fuzz
else
    export CARGO_PROFILE_RELEASE_STRIP=symbols
    build 2.17 -p gpuspy-agent
    if [[ ${3:-} == --tests ]]; then
        rm -rf "${target:?}/$architecture/tests"
        build 2.28 "${whole[@]}" -p gpuspy -p simcuda -p simcudart -p gpuspy-tests --lib --bins --test e2e "${as_json[@]}" | keep_tests
        build 2.28 "${whole[@]}" -p gpuspy-agent -p gpuspy-wire --tests "${as_json[@]}" | keep_tests
    else
        build 2.28 "${whole[@]}" -p gpuspy -p simcuda
    fi
fi

# A function that the empty library lacks, or the agent does not bind, brings zig's unwinder in, with all that is beside it there.
release=$triple/release
agent=$target/glibc-2.17/$release/libgpuspy.so
for file in "$agent" "$target/glibc-2.28/$release"/{gpuspy,libsimcuda.so}; do
    if [[ $architecture == $(uname -m) ]] && nm "$file" | grep ' [tTwW] _*unw_'; then
        echo "build-portable.sh: $file contains an unwinder of its own" >&2
        exit 1
    fi
done

# Each library that it needs is loaded into every process that it is preloaded into.
if readelf -d "$agent" | grep '(NEEDED)' | grep -vE '\[(libc\.so\.6|ld-linux-[a-z0-9_-]*\.so\.[12])\]'; then
    echo "build-portable.sh: the agent needs more than libc: see agent/src/loader/late.rs" >&2
    exit 1
fi
