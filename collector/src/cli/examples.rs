//! What stands under each command's `--help` and in its manual page: lines to copy, and what it exits with.

pub(super) const ALL: &str = "\
Examples:
  gpuspy doctor                          does it work here?
  gpuspy demo                            what does it show? No GPU needed
  gpuspy run -- python train.py          run, collect, print the report
  gpuspy report gpuspy-python-123.gspy   read it again

Exit status: 0; 2 when asked wrongly or something cannot be set up; 3 when a trace cannot be read at all; 70 when \
gpuspy itself is at fault. `run` exits as its program does, `doctor` with 1 when something is a problem.";

pub(super) const RUN: &str = "\
Examples:
  gpuspy run -- python train.py
  gpuspy run -o runs/first.gspy --json -- ./app --steps 10
  gpuspy run --timing off -- ./app       every call, no GPU times: costs least
  gpuspy run --budget 2 -- ./app         time as much as 2 % of wall time allow
  gpuspy run --capture-range delay=10,duration=500ms -- ./app

Exit status: the program's; 128 + n when signal n ended it; 126 when it cannot be executed, 127 when it is not found.";

pub(super) const COLLECT: &str = "\
Examples:
  gpuspy collect --dir traces &
  GPUSPY_SOCKET=$PWD/traces/gpuspy.sock LD_PRELOAD=/path/to/libgpuspy.so ./app
  gpuspy collect --pid 4711 -o app.gspy

While it works it shows its progress, where stderr is a terminal.";

pub(super) const REPORT: &str = "\
Examples:
  gpuspy report app.gspy
  gpuspy report app.gspy --section kernels,launches --sort avg
  gpuspy report app.gspy --section kernels --full-names | less -S
  gpuspy report app.gspy --since 1.5s --until 1600ms --device 0
  gpuspy report app.gspy --kernel 'gemm|attention' --json | jq .kernels
  gpuspy report runs/ --json | jq .gaps
  gpuspy report app.gspy --operations | head

What limits the report (--device to --until) limits --json and --operations as well.

Exit status: 0; 2 when asked wrongly; 3 when no trace can be read.";

pub(super) const EXPORT: &str = "\
Examples:
  gpuspy export app.gspy --to chrome -o app.json.gz     for ui.perfetto.dev, or HTA
  gpuspy export runs/ --to chrome | jq '.traceEvents | length'
  gpuspy export app.gspy --since 1.5s --until 2s --device 0 -o part.json.gz
  gpuspy export runs/ -o exports/                        a file for each rank

Exit status: 0; 3 when no trace can be read.";

pub(super) const DOCTOR: &str = "\
Examples:
  gpuspy doctor
  gpuspy doctor -- ./app                 look at this program besides
  gpuspy doctor --json | jq '.checks[] | select(.level != \"ok\")'

Each line is ok, a warning or a problem; under the latter two stands what to do. It calls CUDA in child processes, which \
use the first GPU for a moment, and leaves nothing behind.

Exit status: 0; 1 when something is a problem.";

pub(super) const DEMO: &str = "\
Examples:
  gpuspy demo
  gpuspy demo -o /tmp/demo --no-report | less

It runs on the first GPU, else on a simulated one (libsimcuda.so beside gpuspy, or in the folder that GPUSPY_SIM names), and \
leaves gpuspy-demo.gspy and gpuspy-demo.json.gz, the latter for ui.perfetto.dev.

Exit status: 0; 2 when there is neither a GPU nor a simulated one; 128 + n when signal n ended it.";

pub(super) const COMPLETIONS: &str = "\
Examples:
  gpuspy completions bash > ~/.local/share/bash-completion/completions/gpuspy
  gpuspy completions fish > ~/.config/fish/completions/gpuspy.fish";

pub(super) const MAN: &str = "\
Examples:
  gpuspy man | man -l -
  gpuspy man run > ~/.local/share/man/man1/gpuspy-run.1";
