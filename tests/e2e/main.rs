//! Client programs on the stand-in GPU, observed, and compared with what really happened.

mod accuracy;
mod compare;
mod counts;
mod life;
mod operations;
mod random;
mod roads;
