//! The hook table: every function that the agent intercepts, one entry each.
//!
//! An entry is
//!
//! ```text
//! layer "base name" { symbol @ version [per_thread], … } (parameters) => how(the call's fields)
//! ```
//!
//! - *layer*: `driver` (libcuda) or `runtime` (libcudart);
//! - *base name*: what `cuGetProcAddress` is asked for, and what reports call it;
//! - *symbols*: every exported variant with this signature; *version* is the CUDA version that `cuGetProcAddress` needs
//!   to answer with it (12.9's and 13.5's own requests), `per_thread` marks those whose default stream is the thread's
//!   own; the runtime has no versions (0);
//! - *parameters* with CUDA's own type names: they are printed as C and compiled against NVIDIA's headers (the test
//!   `prototypes_equal_the_headers`); `word` is an argument that differs between versions of CUDA which have the
//!   function under one name (the test's `TWO_PROTOTYPES`): handed on, never looked at;
//! - *how*: what the call is, in the words of [`crate::calls`], its fields read from the parameters.
//!
//! The entries stand in sections, a file each; [`hooks`](hooks::hooks) sees them as one list.
//!
//! From an entry come the exported symbols, the pointers that `dlsym` and `cuGetProcAddress` hand out, the lookup
//! table, and the list in `docs/hooks.md`. Version-1 functions with 32-bit device pointers (`cuMemAlloc` without `_v2`,
//! CUDA before 3.2) pass through: no 64-bit program can use them.

#[macro_use]
mod copies;
#[macro_use]
mod graphs;
mod hooks;
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
