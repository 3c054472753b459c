#!/usr/bin/env bash
# Makes the packages that users install, in dist/:
#
#   gpuspy-VERSION-py3-none-manylinux_2_28_ARCHITECTURE.whl   pip install, pipx, uv
#   gpuspy-VERSION-linux-ARCHITECTURE.tar.gz                  to unpack anywhere
#   gpuspy_VERSION_ARCHITECTURE.deb, gpuspy-VERSION-1.ARCHITECTURE.rpm
#
#   scripts/package.sh [--target ARCHITECTURE]   x86_64 or aarch64; this machine's without it
#
# All have bin/gpuspy, and lib/gpuspy/ with the agent and the simulated GPU of `gpuspy demo`. scripts/check-packages.sh
# installs and tries them. Without dpkg-deb or rpmbuild (Debian's package rpm), that package is left out, and it says so.
set -euo pipefail
# Packages are for all users of a machine, whatever this one's files are.
umask 022

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
architecture=$(uname -m)
if [[ ${1:-} == --target ]]; then
    architecture=$2
fi
triple=$architecture-unknown-linux-gnu
tools=$root/downloads/tools
work=$root/target/packages/$architecture
tree=$work/tree
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)

scripts/build-portable.sh --target "$architecture"
# Files in packages have the time of the commit, so that packages made again are the same.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
rm -rf "$work"
mkdir -p "$tree/bin" "$tree/lib/gpuspy" "$tree/share/doc/gpuspy" dist

# stripped FILE TO: debug information is most of the files. Another processor's are built without it.
stripped() {
    if [[ $architecture == $(uname -m) ]]; then
        strip --strip-all -o "$2" "$1"
    else
        cp "$1" "$2"
    fi
}
stripped "target/glibc-2.28/$triple/release/gpuspy" "$tree/bin/gpuspy"
stripped "target/glibc-2.17/$triple/release/libgpuspy.so" "$tree/lib/gpuspy/libgpuspy.so"
stripped "target/glibc-2.28/$triple/release/libsimcuda.so" "$tree/lib/gpuspy/libsimcuda.so"
cp README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$tree/share/doc/gpuspy"
# The README's links lead there.
mkdir "$tree/share/doc/gpuspy/docs"
cp -r docs/*.md docs/images "$tree/share/doc/gpuspy/docs"
packaging/links.py "$tree/share/doc/gpuspy"
packaging/third-party.py "$triple" gpuspy gpuspy-agent simcuda >"$tree/share/doc/gpuspy/THIRD-PARTY.txt"

# The program writes its own pages, so another processor's packages have none.
if [[ $architecture == $(uname -m) ]]; then
    mkdir -p "$tree/share/man/man1" "$tree"/share/{bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
    gpuspy=$tree/bin/gpuspy
    "$gpuspy" man >"$tree/share/man/man1/gpuspy.1"
    for command in run collect report top diff export queries doctor demo completions man; do
        "$gpuspy" man "$command" >"$tree/share/man/man1/gpuspy-$command.1"
    done
    "$gpuspy" completions bash >"$tree/share/bash-completion/completions/gpuspy"
    "$gpuspy" completions zsh >"$tree/share/zsh/site-functions/_gpuspy"
    "$gpuspy" completions fish >"$tree/share/fish/vendor_completions.d/gpuspy.fish"
fi
chmod -R a+rX "$tree"

step() { printf '== %s\n' "$*"; }

step "tarball"
name=gpuspy-$version-linux-$architecture
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --transform "s,^\.,$name," \
    -C "$tree" -cf - . | gzip -9n >"dist/$name.tar.gz"

step "wheel"
# The program needs glibc 2.28, and the agent less (scripts/build-portable.sh).
platform=manylinux_2_28_$architecture
cp -r packaging/wheel "$work/wheel"
sed -i "s/@VERSION@/$version/; s/@PLATFORM@/$platform/" "$work"/wheel/*.{toml,py}
cp -r "$tree/." "$work/wheel"
mkdir -p "$work"/wheel/share/{man,bash-completion,zsh,fish}
cp "$tree"/share/doc/gpuspy/{README.md,LICENSE-*,THIRD-PARTY.txt} "$work/wheel"
chmod -R a+rX "$work/wheel"
(cd "$work/wheel" && PYTHONPATH=$tools python3 -m hatchling build --target wheel --directory "$root/dist" >/dev/null)

# installed FOLDER: the tree as packages of distributions have it.
installed() {
    mkdir -p "$1/usr"
    cp -r "$tree/." "$1/usr"
}

step "Debian package"
if command -v dpkg-deb >/dev/null; then
    declare -A debian=([x86_64]=amd64 [aarch64]=arm64)
    installed "$work/deb"
    mkdir "$work/deb/DEBIAN"
    sed "s/@VERSION@/$version/; s/@ARCHITECTURE@/${debian[$architecture]}/" packaging/debian/control >"$work/deb/DEBIAN/control"
    dpkg-deb --root-owner-group --build "$work/deb" "dist/gpuspy_${version}_${debian[$architecture]}.deb" >/dev/null
else
    echo "left out: dpkg-deb is not installed"
fi

step "RPM package"
if command -v rpmbuild >/dev/null; then
    installed "$work/rpm"
    rpmbuild --quiet -bb --target "$architecture" --define "_topdir $work/rpmbuild" --define "_rpmdir $work" \
        --define "version $version" --define "staged $work/rpm" --define "use_source_date_epoch_as_buildtime 1" \
        --define "_buildhost gpuspy" packaging/rpm/gpuspy.spec
    mv "$work/$architecture/gpuspy-$version-1.$architecture.rpm" dist/
else
    echo "left out: rpmbuild is not installed"
fi
ls -l dist | awk 'NR > 1 { printf "%9.2f MB  %s\n", $5 / 1e6, $NF }'
