//! The examples and exit codes in `--help` and the manual page of each command.

pub(super) const ALL: &str = "\
Examples:
  gpuspy doctor                          does it work here?
  gpuspy demo                            what does it show? (no GPU needed)
  gpuspy run -- python train.py          run, collect, print the report
  gpuspy report gpuspy-python-123.gspy   print the report again
  gpuspy diff before.gspy after.gspy     did the change help?

Exit status: 0; 2 on bad usage or when something cannot be set up; 3 when a trace cannot be read at all, or `diff` cannot compare; \
4 when `diff` finds more than --fail-over allows; 70 on an internal error of gpuspy. `run` exits as its program does, `doctor` with 1 \
if it finds a problem.";

pub(super) const RUN: &str = "\
Examples:
  gpuspy run -- python train.py
  gpuspy run -o first.gspy --json -- ./app --steps 10
  gpuspy run --timing off -- ./app       all calls, no GPU times: the lowest overhead
  gpuspy run --budget 2 -- ./app         as many GPU times as 2 % overhead allows
  gpuspy run --capture-range delay=10,duration=500ms -- ./app

Exit status: the program's; 126 when it cannot be executed, 127 when it is not found; 2 on bad usage, or when something cannot \
be set up: then the program was not started. When a signal ended the program, the same signal ends gpuspy: 128 + n in a shell.";

pub(super) const COLLECT: &str = "\
Examples:
  gpuspy collect --dir traces &
  GPUSPY_SOCKET=$PWD/traces/gpuspy.sock LD_PRELOAD=/path/to/libgpuspy.so ./app
  gpuspy collect --pid 4711 -o app.gspy
  gpuspy collect --dir /var/lib/gpuspy --metrics /var/lib/node_exporter/gpuspy.prom --keep 1h

It shows its progress if stderr is a terminal.

Exit status: 0; 2 on bad usage or when something cannot be set up.";

pub(super) const TOP: &str = "\
Examples:
  gpuspy top -- python train.py
  gpuspy run -o train.gspy -- python train.py     in one terminal
  gpuspy top train.gspy                           in another one
  gpuspy top traces/ --last 1m --every 10s        what a collector writes there (gpuspy collect --dir traces)
  gpuspy top train.gspy --section kernels,steps
  gpuspy top train.gspy --looks 1 | less          what it does now, once

It only reads traces: programs and their collectors do nothing for it. Where a look takes long, the next one comes later.

CMD is recorded as by gpuspy run, whose other options are variables here (GPUSPY_TIMING=exact), and its trace is kept. What it prints \
would be written over the screen: that goes to a file, which is named at the end.

Exit status: 0; 2 on bad usage, or if no program writes to the trace; 3 when it cannot be read; with CMD, as that of gpuspy run.";

pub(super) const REPORT: &str = "\
Examples:
  gpuspy report app.gspy
  gpuspy report app.gspy --section kernels,launches --sort avg
  gpuspy report app.gspy --section kernels --full-names | less -S
  gpuspy report app.gspy --since 1.5s --until 1600ms --device 0
  gpuspy report app.gspy --last 10s               its end, or what it does now if it still runs
  gpuspy report app.gspy --kernel 'gemm|attention' --json | jq .kernels
  gpuspy report runs/ --json | jq .gaps
  gpuspy report app.gspy --html app.html          then open it in a browser
  gpuspy report app.gspy --operations | head

The filters (--rank to --step) apply to --json, --html and --operations as well.

Exit status: 0; 2 on bad usage; 3 when no trace can be read.";

pub(super) const DIFF: &str = "\
Examples:
  gpuspy run -o before.gspy -- python train.py
  gpuspy run -o after.gspy -- python train.py     after a change
  gpuspy diff before.gspy after.gspy
  gpuspy diff before.gspy after.gspy --fail-over 5 || echo 'slower by more than 5 %'
  gpuspy diff before.gspy after.gspy --section kernels --top 20
  gpuspy diff runs/before runs/after --json | jq .change

Where both runs have steps, the median step is compared, or the mean if rare long steps make most of its change, and the noise is what the steps of both vary by; other figures are \
of a step. Without steps, or where a step may not be the same work in both, whole runs are compared: the noise is not known, and \
--fail-over compares the plain times. The filters apply to both traces; without steps, nothing can be said of what --since, \
--until and --last select.

Exit status: 0; 2 on bad usage; 3 when a side has no call that can be read, or when --fail-over cannot decide because a trace is \
damaged, AFTER failed and BEFORE did not, or --since, --until or --last leaves no steps to compare; 4 when AFTER is slower than --fail-over allows.";

pub(super) const QUERIES: &str = "\
Examples:
  gpuspy export runs/ --to parquet -o tables/
  gpuspy queries                              the list, with what each answers
  (gpuspy queries --setup duckdb tables/; gpuspy queries stragglers) | duckdb

docs/queries.md shows DuckDB and Spark from Python.

Exit status: 0; 2 on bad usage.";

pub(super) const EXPORT: &str = "\
Examples:
  gpuspy export app.gspy --to chrome -o app.json.gz     for ui.perfetto.dev, or HTA
  gpuspy export app.gspy --to perfetto -o app.pftrace   for ui.perfetto.dev: smaller
  gpuspy export runs/ --to chrome | jq '.traceEvents | length'
  gpuspy export app.gspy --since 1.5s --until 2s --device 0 -o part.json.gz
  gpuspy export app.gspy --step 10..12 -o steps.json.gz
  gpuspy export runs/ -o exports/                        a file for each rank
  gpuspy export app.gspy --to speedscope -o app.speedscope.json
  gpuspy export app.gspy --to collapsed --weight idle | flamegraph.pl > idle.svg
  gpuspy export runs/ --to parquet -o tables/            for DuckDB and Spark: a job in tables/

An earlier export is replaced; other files, and directories that are not empty, are not.

Exit status: 0; 2 on bad usage; 3 when no trace can be read.";

pub(super) const DOCTOR: &str = "\
Examples:
  gpuspy doctor
  gpuspy doctor -- ./app                 check this program too
  gpuspy doctor --json | jq '.checks[] | select(.level != \"ok\")'

Each line is ok, a warning or a problem; warnings and problems are followed by what to do. The doctor calls CUDA in child \
processes, which use the first GPU for a moment, and leaves nothing behind.

Exit status: 0; 1 if there is a problem; 2 on bad usage.";

pub(super) const DEMO: &str = "\
Examples:
  gpuspy demo
  gpuspy demo -o /tmp/demo --no-report | less

The demo runs on the first GPU, else on a simulated one (libsimcuda.so beside gpuspy, or in the directory $GPUSPY_SIM). It \
leaves gpuspy-demo.gspy, and gpuspy-demo.json.gz for ui.perfetto.dev.

Exit status: 0; 2 if there is neither a real nor a simulated GPU; 128 + n when signal n ended it.";

pub(super) const COMPLETIONS: &str = "\
Examples:
  gpuspy completions bash > ~/.local/share/bash-completion/completions/gpuspy
  gpuspy completions fish > ~/.config/fish/completions/gpuspy.fish

Exit status: 0; 2 on bad usage.";

pub(super) const MAN: &str = "\
Examples:
  gpuspy man | man -l -
  gpuspy man run > ~/.local/share/man/man1/gpuspy-run.1

Exit status: 0; 2 on bad usage.";
