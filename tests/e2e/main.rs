//! Client programs on the stand-in GPU, observed, and compared with what really happened.

mod accuracy;
mod budget;
mod captures;
mod compare;
mod counts;
mod events;
mod export;
mod graphs;
mod life;
mod operations;
mod poller;
mod programmatic;
mod random;
mod roads;
mod teardown;
