#!/usr/bin/env bash
# The agent is a guest in other people's processes: libc and the wire contract are all it may bring along.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

allowed='gpuspy-agent gpuspy-wire libc'
found=$(cargo tree --package gpuspy-agent --edges normal --prefix none --format '{p}' | cut -d' ' -f1 | sort -u | xargs)
if [[ $found != "$allowed" ]]; then
    echo "the agent depends on: $found (allowed: $allowed)" >&2
    exit 1
fi
echo "the agent depends on: $found"
