//! Client programs on the stand-in GPU, observed, and compared with what really happened.

mod clock;
mod compare;
mod counts;
mod life;
mod random;
mod roads;
