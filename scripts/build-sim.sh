#!/usr/bin/env bash
# Builds gpuspy, and the simulated GPU with the client programs that run on it:
#
#   scripts/build-sim.sh [--target ARCHITECTURE]   for another machine (scripts/check-arm), in target/ARCHITECTURE instead of target
#
#   target/release         gpuspy and libgpuspy.so as users get them (scripts/build-portable.sh)
#   target/sim/lib         libcuda.so.1, libcudart.so.12 and .13, which programs find in place of NVIDIA's
#   target/sim/bin         every tests/programs/*.c; a lib*.c becomes lib*.so beside them
#   target/release/scale   generates traces and measures the cost of reading them (tests/src/bin)
#
# Programs that include NVIDIA's headers are built only if scripts/fetch.sh has downloaded those into downloads/.
# With GPUSPY_BUILT=1, which scripts/test.sh sets, nothing is built: it has been.
set -euo pipefail
if [[ -n ${GPUSPY_BUILT:-} ]]; then
    exit
fi

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=$root/target
triple=$(uname -m)-unknown-linux-gnu
compiler=gcc
if [[ ${1:-} == --target ]]; then
    "$root/scripts/build-portable.sh" --target "$2" --tests
    target=$root/target/$2
    triple=$2-unknown-linux-gnu
    compiler=$2-linux-gnu-gcc
else
    "$root/scripts/build-portable.sh"
fi
lib=$target/sim/lib
bin=$target/sim/bin
downloads=$root/downloads
built=$root/target/glibc-2.28/$triple/release
mkdir -p "$target/release" "$lib" "$bin"

# replace FROM TO: puts a file in place in one step, and only if it differs, because a running program may have it
# mapped.
replace() {
    if ! cmp -s "$1" "$2"; then
        cp "$1" "$2.new"
        mv "$2.new" "$2"
    fi
}

for file in "$built"/{gpuspy,scale,agree} "$root/target/glibc-2.17/$triple/release/libgpuspy.so"; do
    replace "$file" "$target/release/${file##*/}"
done
# Some clients open libcuda.so, most open libcuda.so.1.
replace "$built/libsimcuda.so" "$lib/libcuda.so.1"
ln -sf libcuda.so.1 "$lib/libcuda.so"

# runtime VERSION: links the simulated runtime as NVIDIA's is linked: with its SONAME, all symbols under one version
# node of the same name, and -Bsymbolic, so that it calls its own functions whatever is preloaded. A name that is listed
# as local stays local even if a pattern before it matches.
runtime() {
    local name=libcudart.so.$1 versions=$root/sim/cudart/versions.txt others
    local archive=$built/libsimcudart.a
    if [[ ! $lib/$name -nt $archive || ! $lib/$name -nt $versions || ! $lib/$name -nt ${BASH_SOURCE[0]} ]]; then
        others=$(awk -v version="$1" '!/^#/ && NF == 2 && $2 != version { printf "%s; ", $1 }' "$versions")
        printf '%s { global: cuda*; __cuda*; local: %s*; };\n' "$name" "$others" >"$target/sim/$name.map"
        "$compiler" -shared -o "$lib/$name.new" -Wl,--whole-archive "$archive" -Wl,--no-whole-archive \
            -Wl,-soname,"$name" -Wl,--version-script="$target/sim/$name.map" -Wl,-Bsymbolic -Wl,--gc-sections \
            -Wl,-z,defs -lpthread -ldl -lm -lgcc_s
        mv "$lib/$name.new" "$lib/$name"
    fi
}
runtime 12
runtime 13
ln -sf libcudart.so.12 "$lib/libcudart.so"

# program SOURCE: builds one client. Its `// link:` line lists what it links against, where DOWNLOADS stands for
# downloads/, and its `// flags:` line what else the compiler is called with. It includes CUDA 12's headers, or those that
# its `// headers:` line names. One with an `// only:` line is for that processor.
program() {
    local source=$1 output flags extra headers
    if grep -q '^// only: ' "$source" && ! grep -q "^// only: ${triple%%-*}" "$source"; then
        return
    fi
    headers=$(sed -n 's,^// headers: ,,p' "$source")
    headers=$downloads/${headers:-cuda-12.9}/include
    output=$bin/$(basename "${source%.c}")
    flags=(-std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror)
    if [[ $(basename "$source") == fault_* ]]; then
        flags+=(-g) # Findings name their lines.
    fi
    if [[ $(basename "$source") == lib* ]]; then
        output=$output.so
        flags+=(-shared -fPIC "-Wl,-soname,$(basename "$output")")
    fi
    # Rebuilt if its source, any shared header or table, or this script is newer.
    if [[ -e $output && -z $(find "$source" "$root"/tests/programs/*.h "$root"/tests/programs/*.inc "${BASH_SOURCE[0]}" \
        -newer "$output" -print -quit) ]]; then
        return
    fi
    if [[ -d $headers ]]; then
        flags+=("-I$headers")
    elif ! "$compiler" "${flags[@]}" -E "$source" >/dev/null 2>&1; then
        left_out+=("$(basename "${source%.c}")")
        return
    fi
    read -ra extra <<<"$(sed -n 's,^// flags: ,,p' "$source") $(sed -n 's,^// link: ,,p' "$source")"
    extra=("${extra[@]//DOWNLOADS/$downloads}")
    # shellcheck disable=SC2016 # the loader expands $ORIGIN
    "$compiler" "${flags[@]}" "$source" -o "$output" -L"$bin" -L"$lib" -Wl,-rpath,'$ORIGIN' "${extra[@]}" -lpthread -ldl
}

left_out=()
# Libraries first: programs may link against them.
for source in "$root"/tests/programs/lib*.c "$root"/tests/programs/*.c; do
    program "$source"
done
if [[ ${#left_out[@]} -gt 0 ]]; then
    echo "build-sim.sh: ${#left_out[@]} client programs need NVIDIA's headers and are left out; scripts/fetch.sh gets those" >&2
fi
