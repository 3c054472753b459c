//! Client programs on the stand-in GPU, observed, and compared with what really happened.

mod compare;
mod counts;
mod life;
mod poller;
mod random;
mod roads;
mod teardown;
