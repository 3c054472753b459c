//! Client programs on the stand-in GPU, observed, and compared with what really happened.

mod accuracy;
mod budget;
mod captures;
mod clock;
mod compare;
mod counts;
mod demo;
mod devices;
mod doctor;
mod events;
mod export;
mod graphs;
mod life;
mod manners;
mod memory;
mod nvtx;
mod operations;
mod poller;
mod processes;
mod programmatic;
mod random;
mod reused;
mod roads;
mod scale;
mod streams;
mod teardown;
