#!/usr/bin/env bash
# Checks that the agent, which is a guest in other programs' processes, depends on nothing but libc and the wire crate.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

allowed='gpuspy-agent gpuspy-wire libc'
found=$(cargo tree --package gpuspy-agent --edges normal --prefix none --format '{p}' | cut -d' ' -f1 | sort -u | xargs)
if [[ $found != "$allowed" ]]; then
    echo "the agent depends on: $found (allowed: $allowed)" >&2
    exit 1
fi
echo "the agent depends on: $found"
