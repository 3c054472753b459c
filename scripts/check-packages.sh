#!/usr/bin/env bash
# Installs the packages of scripts/package.sh in every way that people do, and has each installation observe a program on the
# simulated GPU (scripts/build-sim.sh has to have built that).
#
#   scripts/check-packages.sh             what the binaries need; the wheel by pip, pipx and uv; the tarball; the RPM
#   scripts/check-packages.sh --chroot    in addition the Debian package in a Debian that has nothing else (needs root and
#                                         debootstrap)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
tools=$root/downloads/tools
work=$root/target/check-packages
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
architecture=$(uname -m)
wheel=$root/dist/gpuspy-$version-py3-none-manylinux_2_28_$architecture.whl
rm -rf "$work"
mkdir -p "$work"

step() { printf '== %s\n' "$*"; }
fail() {
    printf 'check-packages.sh: %s\n' "$*" >&2
    exit 1
}

# needs_at_most GLIBC FILE: a symbol of a newer glibc, or one that no glibc has to have, would keep the program from starting.
needs_at_most() {
    local symbols newest
    symbols=$(nm --dynamic --undefined-only "$2")
    newest=$(grep -o '@GLIBC_[0-9.]*' <<<"$symbols" | sed 's/@GLIBC_//' | sort -Vu | tail -1)
    [[ $(printf '%s\n%s\n' "$newest" "$1" | sort -V | tail -1) == "$1" ]] || fail "$2 needs glibc $newest, not $1"
    if grep ' U ' <<<"$symbols" | grep -v '@'; then
        fail "$2 needs these symbols of no version"
    fi
    printf '%-20s needs glibc %s\n' "$(basename "$2")" "$newest"
}

# open_to_all PACKAGE LISTING: files that others cannot read, folders that they cannot enter, and programs that they cannot run
# would make a package that root installs useless to them. A line of the listing begins with the mode and ends with the path.
open_to_all() {
    local closed
    closed=$(awk '$1 !~ /^.......r/ || (/^d/ || /(bin|scripts)\/gpuspy$/) && $1 !~ /^.........x/' <<<"$2")
    [[ -z $closed ]] || fail "in $1, these are not for others: $closed"
}

# works GPUSPY: it finds its agent, observes a program, and is found by the agent that is preloaded alone.
works() {
    local gpuspy=$1 said agent traced launches
    said=$("$gpuspy" --version --verbose)
    agent=$(sed -n "s/^agent *\(.*\), version $version,.*/\1/p" <<<"$said")
    [[ -n $agent ]] || fail "$gpuspy does not have an agent of its version: $said"
    traced=$(mktemp -d -p "$work")
    (
        cd "$traced"
        export LD_LIBRARY_PATH=$root/target/sim/lib
        "$gpuspy" run -o run.gspy -- "$root/target/sim/bin/plain_work" >said 2>&1 || fail "$(cat said)"
        PATH=/usr/bin:/bin LD_PRELOAD=$agent "$root/target/sim/bin/plain_work" >said 2>&1 || fail "$(cat said)"
        grep -q "gpuspy: the trace is .* read it with: .*$(basename "$(dirname "$(realpath "$gpuspy")")")/gpuspy report" said ||
            fail "the agent $agent alone: $(cat said)"
        for trace in *.gspy; do
            launches=$("$gpuspy" report "$trace" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["coverage"]["launches"])')
            [[ $launches == 200 ]] || fail "$trace has $launches launches of 200"
        done
        [[ $(ls ./*.gspy | wc -l) == 2 ]] || fail "not two traces: $(ls)"
    )
    printf 'works: %s\n' "${gpuspy#"$work"/}"
}

step "what the binaries need"
mkdir "$work/tarball"
tar -C "$work/tarball" --strip-components=1 -xzf "dist/gpuspy-$version-linux-$architecture.tar.gz"
needs_at_most 2.28 "$work/tarball/bin/gpuspy"
needs_at_most 2.17 "$work/tarball/lib/gpuspy/libgpuspy.so"
needs_at_most 2.28 "$work/tarball/lib/gpuspy/libsimcuda.so"
PYTHONPATH=$tools python3 -m auditwheel show "$wheel" >"$work/auditwheel"
grep -Eq "manylinux_2_(17|2[0-8])_$architecture" "$work/auditwheel" || fail "$(cat "$work/auditwheel")"

step "tarball"
open_to_all tarball "$(tar -tvzf "dist/gpuspy-$version-linux-$architecture.tar.gz")"
cp -r "$work/tarball/share/doc/gpuspy" "$work/documents"
packaging/links.py "$work/documents"
diff -r "$work/tarball/share/doc/gpuspy" "$work/documents" || fail "links of documents lead to what is not in the package"
pages=$work/tarball/share/man/man1
for page in $(grep -o 'gpuspy\\-[a-z]*(1)' "$pages/gpuspy.1" | tr -d '\\' | sed 's/(1)//'); do
    [[ -f $pages/$page.1 ]] || fail "gpuspy(1) names $page(1), which is not in the package"
done
works "$work/tarball/bin/gpuspy"

step "wheel: pip in a virtual environment, pipx, uv"
open_to_all "the wheel" "$(python3 -c '
import stat, sys, zipfile
for file in zipfile.ZipFile(sys.argv[1]).infolist():
    print(stat.filemode(file.external_attr >> 16), file.filename)' "$wheel")"
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-index "$wheel"
works "$work/venv/bin/gpuspy"
[[ $("$work/venv/bin/python" -m gpuspy --version) == "gpuspy $version" ]] || fail "python -m gpuspy"
PYTHONPATH=$tools PIPX_HOME=$work/pipx PIPX_BIN_DIR=$work/pipx/links python3 -m pipx install --quiet "$wheel"
works "$work/pipx/links/gpuspy"
UV_TOOL_DIR=$work/uv UV_TOOL_BIN_DIR=$work/uv/links "$tools/bin/uv" tool install --quiet --offline --no-cache --python "$(command -v python3)" "$wheel"
works "$work/uv/links/gpuspy"
(cd "$work" && env -u GPUSPY_SIM "$work/venv/bin/gpuspy" demo -o "$work/demo" >"$work/demo.txt") || fail "$(cat "$work/demo.txt")"
grep -q '^Findings' "$work/demo.txt" || fail "the demo: $(cat "$work/demo.txt")"
"$work/venv/bin/pip" uninstall --quiet --yes gpuspy
[[ -z $(find "$work/venv" -name '*gpuspy*') ]] || fail "left behind: $(find "$work/venv" -name '*gpuspy*')"

step "RPM package"
package=dist/gpuspy-$version-1.$architecture.rpm
if [[ -f $package ]] && command -v cpio >/dev/null; then
    open_to_all "the RPM" "$(rpm -qlvp "$package")"
    if rpm -qp --provides "$package" | grep libcuda; then
        fail "the RPM claims to provide NVIDIA's driver"
    fi
    mkdir "$work/rpm"
    rpm2cpio "$package" | (cd "$work/rpm" && cpio --quiet --extract --make-directories)
    works "$work/rpm/usr/bin/gpuspy"
else
    echo "left out: there is none, or no cpio to unpack it"
fi

step "Debian package"
if command -v dpkg-deb >/dev/null; then
    package=dist/gpuspy_${version}_$(dpkg --print-architecture).deb
    open_to_all "the Debian package" "$(dpkg-deb --contents "$package")"
    dpkg-deb --extract "$package" "$work/deb"
    works "$work/deb/usr/bin/gpuspy"
else
    echo "left out: no dpkg-deb"
fi
if [[ ${1:-} == --chroot ]]; then
    debian=$root/downloads/debian
    [[ -f $debian/.complete ]] || { debootstrap --variant=minbase bookworm "$debian" >/dev/null && touch "$debian/.complete"; }
    cp -a --reflink=auto "$debian" "$work/debian"
    cp "$package" "$work/debian/gpuspy.deb"
    cp -rL target/sim/lib target/sim/bin/plain_work "$work/debian/tmp/"
    chroot "$work/debian" sh -ec '
        mount -t proc proc /proc
        trap "umount /proc" EXIT
        dpkg -i /gpuspy.deb
        gpuspy --version --verbose
        gpuspy demo -o /tmp/demo | grep ^Findings
        cd /tmp && export LD_LIBRARY_PATH=/tmp/lib
        gpuspy run -o run.gspy -- ./plain_work 2>&1 | grep "^Coverage  200 launches"
        LD_PRELOAD=/usr/lib/gpuspy/libgpuspy.so ./plain_work
        gpuspy report gpuspy-plain_work-*.gspy | grep "^Coverage  200 launches"
        dpkg -P gpuspy'
fi
rm -rf "$work"
echo "all packages work"
