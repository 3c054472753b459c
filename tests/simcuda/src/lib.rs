//! A stand-in `libcuda.so.1`.

pub mod api;
pub mod assume;
pub mod call;
pub mod capture;
pub mod clock;
pub mod config;
pub mod effects;
pub mod engine;
pub mod error;
pub mod export;
pub mod graph;
pub mod handle;
pub mod image;
pub mod memory;
pub mod state;
pub mod thread;
pub mod truth;
pub mod work;
pub mod worker;
