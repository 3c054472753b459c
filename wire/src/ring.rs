//! How do a thread's records reach another process without either side ever waiting?
//!
//! # The contract
//!
//! 1. A slot has one writer (the thread that claimed it) and one reader (the collector). Nothing else touches
//!    its cursors or cells while it is open.
//! 2. `tail` and `head` count 64-bit words from the segment's creation. They only grow, are never reset, and
//!    are reduced modulo the buffer's length only to address a word. Only the writer stores `tail`, and only
//!    the reader stores `head`.
//! 3. Words in `[head, tail)` belong to the reader; all others belong to the writer. The writer stores a
//!    record's words and then stores `tail` with release. The reader loads `tail` with acquire, copies the
//!    words, and then stores `head` with release. The writer loads `head` with acquire before it overwrites
//!    words. Those two pairs are the only synchronization.
//! 4. A record is a whole number of cells and is published as a whole, by one store of `tail`: a reader never
//!    sees a part of it.
//! 5. If the ring is full, the record is dropped and the caller gets an error. The writer never waits for the
//!    reader.
//! 6. Growth: a slot has [`LEVELS`] buffers, each larger than the one before. The writer moves from level L
//!    to L + 1 by storing `moved[L] = tail` before the first record in the new buffer; the release store of
//!    that record's `tail` publishes both. Words at positions below `moved[L]` are in level L, and later ones
//!    are above it. The cursors continue. A writer only moves up; the next owner of the slot starts at level
//!    0 again.
//! 7. The other side may write anything anywhere at any time. The writer accepts `head` only if it is between
//!    the last accepted one and its own `tail`. The reader accepts `tail` only if it is not below `head` and
//!    no further ahead than the buffers' total length; it accepts a record's length only if it is not 0 and
//!    the record ends at or before `tail`; and it decodes its own copy, never the shared words. Anything else
//!    is [`Corrupt`]: the reader skips to `tail`.
//! 8. Slot life: `FREE → CLAIMING → OPEN → CLOSED → FREE`, with a generation that grows at each claim. A
//!    thread claims a slot by a compare-exchange, prepares it, and opens it with release. It closes it with
//!    release when the thread ends. After an acquire load of CLOSED, the collector drains the slot to `tail`
//!    and frees it with release; only then can another thread claim it (acquire). A process that dies leaves
//!    its slots OPEN: the collector drains them in the same way.
//!
//! All shared words are atomics, including the records' words (relaxed: the pairs of rule 3 order them). So a
//! peer that breaks the rules can make the reader's copy meaningless, but cannot cause undefined behavior.
//! The algorithms are generic over the atomic type, so that loom can run them (`tests/loom.rs`).

use crate::record::{CELL_WORDS, Head, MAX_CELLS};
use core::sync::atomic::{AtomicU64, Ordering};

/// The number of buffers of a slot.
pub const LEVELS: usize = 3;
/// The number of words of the longest record.
pub const MAX_RECORD_WORDS: usize = MAX_CELLS * CELL_WORDS;

/// The largest position at which a slot can be claimed. No cursor reaches it (2^62 words are a thousand years
/// at 1 GB a second), so no sum with a position overflows.
const MAX_POSITION: u64 = 1 << 62;

/// A shared 64-bit atomic: [`AtomicU64`], or loom's.
pub trait Word {
    /// Atomic load.
    fn load(&self, order: Ordering) -> u64;
    /// Atomic store.
    fn store(&self, value: u64, order: Ordering);
    /// Atomic compare-exchange, AcqRel on success and Acquire on failure. Returns whether it exchanged.
    fn exchange_if(&self, current: u64, new: u64) -> bool;
}

impl Word for AtomicU64 {
    #[inline(always)]
    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }
    #[inline(always)]
    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order);
    }
    #[inline(always)]
    fn exchange_if(&self, current: u64, new: u64) -> bool {
        self.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A value on a cache line of its own, so that the two sides' cursors do not share one.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Line<T>(pub T);

/// The two cursors of a slot and the points where its writer moved to a larger buffer.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Cursors<W> {
    /// The number of words published. Written by the writer.
    pub tail: Line<W>,
    /// The number of words consumed. Written by the reader.
    pub head: Line<W>,
    /// The position where level L ended, or `u64::MAX` while level L is the last one in use. Written by the
    /// writer.
    pub moved: [W; LEVELS - 1],
}

/// The record did not fit and was dropped (rule 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The ring contains something that no writer that keeps the contract would have stored (rule 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// The number of words that were skipped; they count as lost.
    pub words: u64,
}

/// A record of `N` cells that is stored in a ring and not published.
#[derive(Clone, Copy, Debug)]
pub struct Prepared<'a, W, const N: usize> {
    /// The position of its first word.
    at: u64,
    first_cell: &'a [W; CELL_WORDS],
}

impl<W: Word, const N: usize> Prepared<'_, W, N> {
    /// Changes a word of its first cell.
    #[inline(always)]
    pub fn set<const AT: usize>(&self, word: u64) {
        const { assert!(AT < CELL_WORDS) };
        if let Some(shared) = self.first_cell.get(AT) {
            // Relaxed: publishing the record orders it.
            shared.store(word, Ordering::Relaxed);
        }
    }
}

/// The writing end. It is in the writer's own memory; only what it publishes is shared.
#[derive(Debug)]
pub struct Writer<'a, W> {
    cursors: &'a Cursors<W>,
    buffer: &'a [W],
    level: usize,
    /// The position where the use of the current buffer started: earlier words are in smaller buffers.
    base: u64,
    tail: u64,
    /// The last accepted head.
    head: u64,
    /// The position up to which there is certainly room.
    end: u64,
    /// The position from which on more than half of the buffer is in use, unless the reader has come further.
    half: u64,
}

impl<'a, W: Word> Writer<'a, W> {
    /// Takes over a slot that was just claimed and is not open yet, so that everything in it has been
    /// consumed.
    ///
    /// `buffer` is the slot's level 0; its length must be a power of two of at least [`CELL_WORDS`] words.
    /// Returns `None` if it is not, or if the slot's `tail` is no position that a writer can have left there
    /// (rule 7): such a slot is unusable.
    pub fn claim(cursors: &'a Cursors<W>, buffer: &'a [W]) -> Option<Self> {
        if !buffer.len().is_power_of_two() || buffer.len() < CELL_WORDS {
            return None;
        }
        // Relaxed: only the slot's owner stores it, and the claim (acquire) ordered this thread after the
        // last owner.
        let tail = cursors.tail.0.load(Ordering::Relaxed);
        if tail > MAX_POSITION || !tail.is_multiple_of(CELL_WORDS as u64) {
            return None;
        }
        for moved in &cursors.moved {
            // Relaxed: published by the release store that opens the slot (rule 8).
            moved.store(u64::MAX, Ordering::Relaxed);
        }
        let mut writer =
            Writer { cursors, buffer, level: 0, base: tail, tail, head: tail, end: tail, half: tail };
        writer.set_ends();
        Some(writer)
    }

    /// Publishes one record: a whole number of cells, whose first word is a [`Head`] with that length.
    ///
    /// # Errors
    /// [`Full`] if the reader has not made enough room: the record is dropped. Never waits.
    #[inline(always)]
    pub fn push(&mut self, words: &[u64]) -> Result<(), Full> {
        debug_assert!(!words.is_empty() && words.len().is_multiple_of(CELL_WORDS));
        let length = words.len() as u64;
        if self.tail + length > self.end {
            self.make_room(length)?;
        }
        let (record, _) = words.as_chunks::<CELL_WORDS>();
        let (buffer, first) = (self.buffer, self.first_cell());
        for (n, cell) in record.iter().enumerate() {
            let Some(target) = Self::cell(buffer, first + n) else { return Err(Full) };
            for (shared, word) in target.iter().zip(cell) {
                shared.store(*word, Ordering::Relaxed);
            }
        }
        self.tail += length;
        // Release pairs with the reader's acquire of `tail`: the words and `moved` are visible before it.
        self.cursors.tail.0.store(self.tail, Ordering::Release);
        Ok(())
    }

    /// Stores a record without publishing it: words after `tail` belong to the writer (rule 3). `None` if it is not
    /// certain that there is room; [`push`](Self::push) looks.
    #[inline(always)]
    pub fn prepare<const N: usize>(&mut self, record: [[u64; CELL_WORDS]; N]) -> Option<Prepared<'a, W, N>> {
        if self.tail + (N * CELL_WORDS) as u64 > self.end {
            return None;
        }
        let (buffer, first) = (self.buffer, self.first_cell());
        let first_cell = Self::cell(buffer, first)?;
        for (n, cell) in record.into_iter().enumerate() {
            for (shared, word) in Self::cell(buffer, first + n)?.iter().zip(cell) {
                shared.store(word, Ordering::Relaxed);
            }
        }
        Some(Prepared { at: self.tail, first_cell })
    }

    /// Whether nothing has been published since the record was prepared, which would have overwritten it, and the
    /// buffer is still the same; false for the first record in a buffer.
    #[inline(always)]
    pub fn has<const N: usize>(&self, prepared: &Prepared<'a, W, N>) -> bool {
        self.tail == prepared.at && self.base < prepared.at
    }

    /// Publishes a record that was prepared, and that is [still there](Self::has). Returns whether the buffer
    /// [is half full](Self::is_half_full).
    #[inline(always)]
    pub fn publish<const N: usize>(&mut self, prepared: Prepared<'a, W, N>) -> bool {
        let tail = prepared.at + (N * CELL_WORDS) as u64;
        let is_half_full = tail > self.half;
        self.tail = tail;
        // Release: as in `push`.
        self.cursors.tail.0.store(tail, Ordering::Release);
        is_half_full && self.uses_half_by_now()
    }

    /// The number of the cell at `tail`.
    #[inline(always)]
    fn first_cell(&self) -> usize {
        self.tail as usize / CELL_WORDS
    }

    /// Returns the cell that a number means in a buffer. A cell never straddles the buffer's end: positions and
    /// capacities are multiples of [`CELL_WORDS`].
    #[inline(always)]
    fn cell(buffer: &[W], number: usize) -> Option<&[W; CELL_WORDS]> {
        let (cells, _) = buffer.as_chunks::<CELL_WORDS>();
        cells.get(number & cells.len().wrapping_sub(1))
    }

    /// Looks whether the reader has made room for so many words.
    #[cold]
    fn make_room(&mut self, length: u64) -> Result<(), Full> {
        // Acquire pairs with the reader's release of `head`: its copies are done before we overwrite the words
        // (rule 3).
        let head = self.cursors.head.0.load(Ordering::Acquire);
        if !(self.head..=self.tail).contains(&head) {
            return Err(Full); // rule 7: not accepted
        }
        self.head = head;
        self.set_ends();
        if self.tail + length > self.end { Err(Full) } else { Ok(()) }
    }

    /// Sets up to where there is room, after a change of `head`, `base` or the buffer.
    fn set_ends(&mut self) {
        let (begin, capacity) = (self.head.max(self.base), self.buffer.len() as u64);
        self.end = begin + capacity;
        self.half = begin + capacity / 2;
    }

    /// Whether more than half of the current buffer is in use, so that it is time to grow. "No" is certain
    /// even with an old head; before "yes", the head is read again, which [`push`](Self::push) does only when
    /// it runs out of room.
    #[inline(always)]
    pub fn is_half_full(&mut self) -> bool {
        self.tail > self.half && self.uses_half_by_now()
    }

    #[cold]
    fn uses_half_by_now(&mut self) -> bool {
        // Acquire pairs with the reader's release of `head`: what `push` then overwrites has been copied
        // (rule 3).
        let head = self.cursors.head.0.load(Ordering::Acquire);
        // Rule 7: accepted only if it is between the last accepted one and `tail`.
        if (self.head..=self.tail).contains(&head) {
            self.head = head;
            self.set_ends();
        }
        self.tail > self.half
    }

    /// The level in use.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Moves to the next level's buffer (rule 6). Returns false and changes nothing if there is no next
    /// level, or if the buffer's length is not a larger power of two.
    pub fn grow(&mut self, buffer: &'a [W]) -> bool {
        let Some(moved) = self.cursors.moved.get(self.level) else { return false };
        if !buffer.len().is_power_of_two() || buffer.len() <= self.buffer.len() {
            return false;
        }
        // Relaxed: published by the next record's release of `tail`.
        moved.store(self.tail, Ordering::Relaxed);
        self.level += 1;
        self.base = self.tail;
        self.buffer = buffer;
        self.set_ends();
        true
    }
}

/// The reading end of one slot. It serves all owners of the slot one after another: the cursors continue.
#[derive(Debug)]
pub struct Reader<'a, W> {
    cursors: &'a Cursors<W>,
    buffers: [&'a [W]; LEVELS],
    level: usize,
    head: u64,
    tail: u64,
}

impl<'a, W: Word> Reader<'a, W> {
    /// Creates a reader that continues at `head`. The buffers' lengths must be powers of two of at least
    /// [`CELL_WORDS`]; returns `None` if they are not.
    pub fn new(cursors: &'a Cursors<W>, buffers: [&'a [W]; LEVELS]) -> Option<Self> {
        if buffers.iter().any(|b| !b.len().is_power_of_two() || b.len() < CELL_WORDS) {
            return None;
        }
        // Relaxed: only this side stores it.
        let head = cursors.head.0.load(Ordering::Relaxed);
        // Rounded to a whole number of cells, whatever an earlier reader or a peer left there.
        let head = head - head % CELL_WORDS as u64;
        Some(Reader { cursors, buffers, level: 0, head, tail: head })
    }

    /// Starts again at level 0, after a new owner has opened the slot.
    pub fn reopened(&mut self) {
        self.level = 0;
    }

    /// Copies the next record into `out` and returns its words, or `None` when the ring is empty.
    ///
    /// The space is not given back before [`release`](Self::release).
    ///
    /// # Errors
    /// [`Corrupt`]: everything published so far was skipped. A `tail` that stays below `head` or between two
    /// cells is reported again by each call (with no words), so a reader should end its round at the first
    /// error.
    pub fn pop<'o>(&mut self, out: &'o mut [u64; MAX_RECORD_WORDS]) -> Result<Option<&'o [u64]>, Corrupt> {
        if self.head == self.tail {
            // Acquire pairs with the writer's release of `tail`.
            let tail = self.cursors.tail.0.load(Ordering::Acquire);
            let most: u64 = self.buffers.iter().map(|b| b.len() as u64).sum();
            let cells = CELL_WORDS as u64;
            if tail < self.head || tail - self.head > most || !tail.is_multiple_of(cells) {
                // Continue after the invalid words, on a cell boundary, and never backwards.
                let skipped_to = self.head.max(tail - tail % cells);
                let words = skipped_to - self.head;
                self.head = skipped_to;
                self.tail = skipped_to;
                return Err(Corrupt { words });
            }
            if tail == self.head {
                return Ok(None);
            }
            self.tail = tail;
        }
        // Relaxed: stored before the `tail` that we acquired. If a level ended at or before `head`, we are
        // above it.
        while self.cursors.moved.get(self.level).is_some_and(|m| m.load(Ordering::Relaxed) <= self.head) {
            self.level += 1;
        }
        let published = (self.tail - self.head) as usize;
        self.copy_cell(self.head, &mut out[..CELL_WORDS]);
        let words = usize::from(Head::from_word(out[0]).cells) * CELL_WORDS;
        if words == 0 || words > published {
            self.head = self.tail;
            return Err(Corrupt { words: published as u64 });
        }
        for (n, cell) in out[..words].chunks_exact_mut(CELL_WORDS).enumerate().skip(1) {
            self.copy_cell(self.head + (n * CELL_WORDS) as u64, cell);
        }
        self.head += words as u64;
        Ok(Some(&out[..words]))
    }

    fn copy_cell(&self, position: u64, out: &mut [u64]) {
        let buffer = self.buffers[self.level];
        let at = position as usize & (buffer.len() - 1);
        for (word, shared) in out.iter_mut().zip(&buffer[at..at + CELL_WORDS]) {
            *word = shared.load(Ordering::Relaxed);
        }
    }

    /// Gives the space of everything popped so far back to the writer.
    pub fn release(&self) {
        // Release pairs with the writer's acquire of `head`: our copies are done.
        self.cursors.head.0.store(self.head, Ordering::Release);
    }
}

/// The phase of a slot's life (rule 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No thread owns it.
    Free,
    /// A thread is preparing it.
    Claiming,
    /// Its writer may write.
    Open,
    /// Its writer has ended; the collector drains it.
    Closed,
}

/// A slot's state word: the phase in the low two bits, the generation above.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct State<W>(pub W);

impl<W: Word> State<W> {
    /// Returns the phase and the generation.
    pub fn get(&self) -> (Phase, u64) {
        // Acquire pairs with the release stores below: what was written before the change is visible.
        let word = self.0.load(Ordering::Acquire);
        let phase = match word & 3 {
            0 => Phase::Free,
            1 => Phase::Claiming,
            2 => Phase::Open,
            _ => Phase::Closed,
        };
        (phase, word >> 2)
    }

    /// Claims a free slot. Returns the new generation.
    pub fn claim(&self) -> Option<u64> {
        let (Phase::Free, generation) = self.get() else { return None };
        // Acquire pairs with the collector's release in `free`: its reads of the last generation are done.
        self.0.exchange_if(generation << 2, ((generation + 1) << 2) | 1).then_some(generation + 1)
    }

    /// Opens the slot after the claimant has prepared it. Release pairs with the collector's acquire in
    /// `get`.
    pub fn open(&self, generation: u64) {
        self.0.store((generation << 2) | 2, Ordering::Release);
    }

    /// Closes the slot after the writer has ended. Release pairs with the collector's acquire in `get`:
    /// `tail` is final.
    pub fn close(&self, generation: u64) {
        self.0.store((generation << 2) | 3, Ordering::Release);
    }

    /// Frees a closed slot that the collector has drained. Release pairs with the next claimant's acquire in
    /// `claim`.
    pub fn free(&self, generation: u64) {
        self.0.store(generation << 2, Ordering::Release);
    }
}
