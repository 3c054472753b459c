#!/usr/bin/env python3
"""Prints the licences of the crates that are in the binaries, as their authors ship them.

    packaging/third-party.py TRIPLE PACKAGE ...
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def dependencies(triple, packages):
    """Returns the crates from elsewhere that are linked into these packages, by name and version."""
    # It needs the crates of the tests, too, which cargo downloads here where only the packages were built.
    command = ["cargo", "metadata", "--quiet", "--format-version=1", "--locked", "--filter-platform", triple]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    crates = {crate["id"]: crate for crate in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    left = [id for id, crate in crates.items() if crate["name"] in packages and crate["source"] is None]
    seen = set()
    while left:
        id = left.pop()
        if id not in seen:
            seen.add(id)
            linked = (dep for dep in nodes[id]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"]))
            left.extend(dep["pkg"] for dep in linked)
    return sorted((crates[id] for id in seen if crates[id]["source"]), key=lambda crate: (crate["name"], crate["version"]))


def texts(crate):
    """Returns the crate's files about its licence, and about that of C code in a folder of it."""
    folder = pathlib.Path(crate["manifest_path"]).parent
    names = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")
    files = [*folder.iterdir(), *folder.glob("*/*")]
    return sorted(file for file in files if file.is_file() and file.name.upper().startswith(names))


def main():
    triple, *packages = sys.argv[1:]
    print("The binaries of gpuspy contain these crates, beside Rust's standard library (MIT OR Apache-2.0):\n")
    crates_of = {}
    for crate in dependencies(triple, packages):
        name = f"{crate['name']} {crate['version']}"
        print(f"  {name}: {crate['license'] or 'see below'}  {crate['repository'] or ''}".rstrip())
        for text in {file.read_text(errors="replace").strip() for file in texts(crate)}:
            crates_of.setdefault(text, []).append(name)
    for text, crates in sorted(crates_of.items(), key=lambda item: (item[1], item[0])):
        print(f"\n{'=' * 120}\n{', '.join(crates)}\n\n{text}")


main()
