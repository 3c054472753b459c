//! A simulator `libcudart.so.12`, for clients that link the CUDA runtime dynamically.
//!
//! NVIDIA's own runtime verifies the driver it runs on, and the simulated driver never answers that check; so clients run
//! on this one instead. What matters to a tracer is the same: how the driver is found (`dlopen`, one `dlsym`, then every
//! function through the `cuGetProcAddress` pointer that `cuGetProcAddress` returned, see [`driver`]), and which driver
//! call each runtime call becomes. It runs on a real driver as well.
//!
//! The archive is linked by `scripts/build-sim.sh` into shared libraries with NVIDIA's SONAMEs and version nodes.
//!
//! Each module holds one family of the API. Every exported function is written with [`export!`] or
//! [`export_on_stream!`]: its body returns a `Result`, and the macro keeps the thread's last error.

#![allow(non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments)]

#[macro_use]
mod export;

mod array;
mod array_copy;
mod context;
mod copy;
mod device;
mod driver;
mod error;
mod event;
mod fat_binary;
mod graph;
mod graph_node;
mod graph_shape;
mod kernel;
#[cfg(test)]
mod lacking;
mod launch;
mod library;
mod managed;
mod memory;
mod pool;
mod properties;
mod semaphore;
mod settings;
mod shaped;
mod stream;
mod texture;
mod variable;
