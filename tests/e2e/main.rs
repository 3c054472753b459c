//! Client programs on the stand-in GPU, observed, and compared with what really happened.

mod counts;
mod life;
mod roads;
