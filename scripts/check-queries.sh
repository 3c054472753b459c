#!/usr/bin/env bash
# Runs every query of `gpuspy queries` on exports of --to parquet: of the demo, of random programs, of the kept traces of former
# versions, of generated ranks and parts of them, and of traces that were cut or damaged, or lack records. What they return must be what
# `report --json` says (scripts/check-queries.d/check.py). DuckDB comes from PyPI on first use (25 MB), pinned, into downloads/.
#
#   scripts/check-queries.sh [--spark] [--thousand] [TRACE ...]
#
# --spark: the same queries on Spark (from PyPI, 480 MB; needs Java 17), which must return the same rows. --thousand: a job of a
# thousand ranks, too. A TRACE is one more job, or a folder of the traces of one.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
judges=$root/scripts/check-queries.d
tools=$root/downloads/duckdb-2.0.1
gpuspy=${GPUSPY_BINARY:-$root/target/release/gpuspy}
scale=${GPUSPY_SCALE:-$root/target/release/scale}
spark=no thousand=no
while [[ ${1:-} == --* ]]; do
    case $1 in
    --spark) spark=yes ;;
    --thousand) thousand=yes ;;
    *)
        echo "usage: scripts/check-queries.sh [--spark] [--thousand] [TRACE ...]" >&2
        exit 2
        ;;
    esac
    shift
done

if ! command -v python3 >/dev/null; then
    echo "check-queries.sh: python3 is missing" >&2
    exit 1
fi
if [[ $spark == yes ]] && ! command -v java >/dev/null; then
    echo "check-queries.sh: Spark needs Java: apt-get install openjdk-17-jre-headless" >&2
    exit 1
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$root/downloads" "$scratch/traces"
installed() { # LIST: installs what it names, once.
    if [[ ! -e $tools/.$1 ]]; then
        [[ -e $tools/bin/python ]] || python3 -m venv "$tools"
        "$tools/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r "$judges/$1"
        touch "$tools/.$1"
    fi
}
installed requirements.txt
if [[ $spark == yes ]]; then
    installed spark.txt
fi
[[ -n ${GPUSPY_BINARY:-} ]] || "$root/scripts/build-sim.sh"

traces=$scratch/traces
cp "$root"/collector/tests/former/*.gspy "$traces/"
"$scale" --ranks 8 4 3000 "$traces/ranks"
# Two starts, whose ranks have the same process ids.
"$scale" --ranks 3 3 2000 "$traces/restarted" 2
"$scale" --generate 40000 "$traces/whole.gspy"
size=$(stat -c %s "$traces/whole.gspy")
head -c $((size * 2 / 3)) "$traces/whole.gspy" >"$traces/cut.gspy"
cp "$traces/whole.gspy" "$traces/damaged.gspy"
printf 'damage' | dd of="$traces/damaged.gspy" bs=1 seek=$((size / 2)) conv=notrunc status=none
if [[ -e $root/target/sim/lib/libcuda.so.1 ]]; then
    "$root/scripts/simgpu" "$gpuspy" demo --no-report -o "$scratch/demo" >/dev/null 2>&1
    cp "$scratch/demo/gpuspy-demo.gspy" "$traces/demo.gspy"
    capture() { # NAME COMMAND...: records a program.
        local name=$1
        shift
        "$root/scripts/simgpu" "$gpuspy" run --quiet --no-report -o "$traces/$name.gspy" -- "$@" >/dev/null
    }
    capture random3 "$root/target/sim/bin/random_program" 3 50 wide
    capture random4 "$root/target/sim/bin/random_program" 4 50
    # Blocks that go in all ways, and ranges.
    for program in memory_driver graph_memory nvtx; do
        capture "now_$program" "$root/target/sim/bin/$program"
    done
    # Nothing is timed, and on a busy machine records are dropped.
    GPUSPY_TIMING=off capture flooded "$root/target/sim/bin/flood" 300000
fi
if [[ $thousand == yes ]]; then
    "$scale" --ranks 1000 125 2000 "$traces/thousand"
fi
for trace in "$@"; do
    cp -r "$trace" "$traces/"
done

tables() { # TRACE JOB OPTION...: exports a trace.
    "$gpuspy" export "$1" --to parquet -o "$scratch/tables" --job "$2" "${@:3}" 2>"$scratch/said" || {
        cat "$scratch/said" >&2
        exit 1
    }
}
for trace in "$traces"/*; do
    tables "$trace" "$(basename "$trace" .gspy)"
done
for since in 1ms 30.1ms 110.9ms 400ms; do
    tables "$traces/ranks" "ranks.since-$since" --since "$since"
done
echo "$(find "$scratch/tables" -name '*.parquet' | wc -l) files, $(du -sm "$scratch/tables" | cut -f1) MB"
"$tools/bin/python" -B "$judges/check.py" "$gpuspy" "$scratch/tables" "$traces" "$spark"
