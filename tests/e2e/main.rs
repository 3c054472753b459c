//! Client programs on the stand-in GPU, observed, and compared with what really happened.

mod accuracy;
mod budget;
mod captures;
mod clock;
mod compare;
mod counts;
mod devices;
mod doctor;
mod events;
mod export;
mod graphs;
mod life;
mod manners;
mod operations;
mod poller;
mod programmatic;
mod random;
mod reused;
mod roads;
mod scale;
mod streams;
mod tables;
mod teardown;
