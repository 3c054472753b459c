//! The driver's functions, by the sections of NVIDIA's CUDA driver API reference. A file begins with its table of
//! exports; build.rs reads the names from it.

pub mod array;
pub mod array_copy;
pub mod batch;
pub mod capture;
pub mod context;
pub mod copy;
pub mod device;
pub mod event;
pub mod function;
pub mod graph;
pub mod graph_add;
pub mod graph_exec;
pub mod graph_memory;
pub mod graph_node;
pub mod graph_parameters;
pub mod graph_shape;
pub mod green;
pub mod init;
pub mod ipc;
pub mod launch;
pub mod library;
pub mod link;
pub mod managed;
pub mod memory;
pub mod memset;
pub mod module;
pub mod multicast;
pub mod occupancy;
pub mod pool;
pub mod semaphore;
pub mod stream;
pub mod tensor_map;
pub mod texture;
pub mod user_object;
pub mod virtual_memory;
