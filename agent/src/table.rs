//! Which functions does the agent intercept? The hook table has one entry for each.
//!
//! An entry is
//!
//! ```text
//! layer "base name" { symbol @ version [per_thread], … } (parameters) => how(the call's fields)
//! ```
//!
//! - *layer*: `driver` (libcuda) or `runtime` (libcudart).
//! - *base name*: the name that `cuGetProcAddress` is called with, and that reports print.
//! - *symbols*: every exported variant with this signature. *version* is the CUDA version with which
//!   `cuGetProcAddress` must be called to return it (from the requests that the runtimes of 12.9 and 13.5
//!   make); `per_thread` marks the variants whose default stream is the thread's own. The runtime has no
//!   versions (0).
//! - *parameters*: with CUDA's own type names. A test prints them as C and compiles them against NVIDIA's
//!   headers (`prototypes_equal_the_headers`). `word` is an argument that differs between CUDA versions that
//!   have the function under the same name (the test's `TWO_PROTOTYPES`): it is passed on and never read.
//! - *how*: the kind of call, in the terms of [`crate::calls`], with its fields read from the parameters.
//!
//! The entries are in sections, with a file for each; [`hooks`](hooks::hooks) receives them as one
//! list.
//!
//! An entry generates the exported symbols, the pointers that `dlsym` and `cuGetProcAddress` hand out, the
//! lookup table, and the list in `docs/hooks.md`. Version-1 functions with 32-bit device pointers
//! (`cuMemAlloc` without `_v2`, before CUDA 3.2) pass through: no 64-bit program can use them.

#[macro_use]
mod copies;
#[macro_use]
mod graphs;
mod hooks;
mod index;
#[macro_use]
mod launches;
#[macro_use]
mod memory;
#[macro_use]
mod setup;
#[macro_use]
mod waits;

use crate::calls::*;
use crate::cuda::*;
use crate::driver::Form;
use gpuspy_wire::record::{Direction, Memory, SyncScope};
use hooks::hooks;

/// Joins the sections into one list: each appends its entries to those that it was given and passes all of
/// them on.
macro_rules! one_table {
    ([$section:ident $($sections:ident)*] $($entries:tt)*) => { $section! { one_table [$($sections)*] $($entries)* } };
    ([] $($entries:tt)*) => { hooks! { $($entries)* } };
}

one_table! { [setup launches copies memory waits graphs] }
