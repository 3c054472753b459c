//! Client programs on the stand-in GPU, observed, and compared with what really happened.

mod captures;
mod compare;
mod counts;
mod events;
mod life;
mod programmatic;
mod random;
mod roads;
