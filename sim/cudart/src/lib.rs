//! A simulated `libcudart.so.12` and `.13`, for clients that link the CUDA runtime dynamically.
//!
//! NVIDIA's own runtime checks the driver that it runs on, and the simulated driver does not answer that check, so
//! clients run on this runtime instead. It matches NVIDIA's in what matters to a tracer: how it finds the driver
//! (`dlopen`, one `dlsym`, then every function through the `cuGetProcAddress` pointer that `cuGetProcAddress` returned,
//! see [`driver`]), and which driver calls each runtime call makes. It runs on a real driver as well.
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
