//! How is work done side by side, on threads of its own?
//!
//! Where the system gives no thread, the same work is done in turns, with the same results.
#![forbid(unsafe_code)]

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::{self, Builder};

/// The most items that wait between two threads.
const AHEAD: usize = 4;

/// Lets `take` take what `make` makes until that is `None`. `make` runs ahead on a thread of its own.
///
/// # Panics
/// If one of them does.
pub fn ahead<T: Send, R>(
    make: impl FnMut() -> Option<T> + Send,
    take: impl FnOnce(&mut (dyn Iterator<Item = T> + Send)) -> R,
) -> R {
    // The thread has it, or, if there is none, we do.
    let make = Mutex::new(make);
    thread::scope(|threads| {
        let (sender, receiver) = sync_channel(AHEAD);
        let maker = &make;
        let thread = Builder::new().spawn_scoped(threads, move || {
            let mut make = maker.lock();
            while let Some(item) = make() {
                // If `take` has enough, it has gone.
                if sender.send(item).is_err() {
                    return;
                }
            }
        });
        match thread {
            Ok(_) => take(&mut receiver.into_iter()),
            Err(_) => take(&mut std::iter::from_fn(&mut *make.lock())),
        }
    })
}

/// Gives each item to two functions, of which `one` runs on a thread of its own.
///
/// # Panics
/// If one of them does.
pub fn beside<T: Send + Sync>(
    items: impl Iterator<Item = T>,
    one: impl FnMut(&T) + Send,
    mut other: impl FnMut(&T),
) {
    let one = Mutex::new(one);
    thread::scope(|threads| {
        let (sender, receiver) = sync_channel::<Arc<T>>(AHEAD);
        let taker = &one;
        let thread = Builder::new().spawn_scoped(threads, move || {
            let mut one = taker.lock();
            receiver.into_iter().for_each(|item| one(&item));
        });
        for item in items.map(Arc::new) {
            if thread.is_err() {
                one.lock()(&item);
            } else if sender.send(Arc::clone(&item)).is_err() {
                return; // It has panicked, and so will we.
            }
            other(&item);
        }
    });
}

/// Lets `take` take, on a thread of its own, what `give` gives.
///
/// # Panics
/// If one of them does.
pub fn behind<T: Send, R>(take: impl FnMut(T) + Send, give: impl FnOnce(&mut dyn FnMut(T)) -> R) -> R {
    let take = Mutex::new(take);
    thread::scope(|threads| {
        let (sender, receiver) = sync_channel(AHEAD);
        let taker = &take;
        let thread = Builder::new().spawn_scoped(threads, move || {
            let mut take = taker.lock();
            receiver.into_iter().for_each(&mut *take);
        });
        give(&mut |item| match &thread {
            // If it has panicked, so will we when it is joined.
            Ok(_) => drop(sender.send(item)),
            Err(_) => (taker.lock())(item),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn all_items_are_taken_in_order() {
        let mut numbers = 0..1000;
        assert!(ahead(|| numbers.next(), |items| items.eq(0..1000)));
        assert_eq!(ahead(|| Some(7), |items| items.take(3).sum::<i32>()), 21, "it need not take all");
    }

    #[test]
    fn two_functions_take_the_same_items_in_order() {
        let (mut one, mut other) = (Vec::new(), Vec::new());
        beside(0..1000, |item| one.push(*item), |item| other.push(*item));
        assert!(one.iter().copied().eq(0..1000) && one == other);
    }

    #[test]
    fn what_is_given_is_taken_in_order_before_the_end() {
        let mut taken = Vec::new();
        behind(|number| taken.push(number), |give| (0..1000).for_each(give));
        assert!(taken.into_iter().eq(0..1000));
    }

    #[test]
    fn a_panic_of_either_side_ends_both() {
        let panics = |work: &dyn Fn()| catch_unwind(AssertUnwindSafe(work)).is_err();
        assert!(panics(&|| assert_eq!(
            ahead(|| -> Option<u8> { panic!("maker") }, |items| items.count()),
            0
        )));
        assert!(panics(&|| ahead(|| Some(1), |_| panic!("taker"))));
        assert!(panics(&|| beside(0..1000, |_| panic!("one"), |_| {})));
        assert!(panics(&|| beside(0..1000, |_| {}, |_| panic!("other"))));
        assert!(panics(&|| behind(|_: u8| panic!("taker"), |give| (0..100).for_each(give))));
        assert!(panics(&|| behind(|_: u8| {}, |_| panic!("giver"))));
    }
}
