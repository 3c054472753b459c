//! Client programs on the stand-in GPU, observed, and compared with what really happened.

mod compare;
mod counts;
mod graphs;
mod life;
mod random;
mod roads;
