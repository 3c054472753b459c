//! Client programs on the stand-in GPU, observed, and compared with what really happened.

mod accuracy;
mod budget;
mod calls;
mod captures;
mod clock;
mod compare;
mod copies;
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
mod streams;
mod teardown;
