//! Who writes to stderr: each thread that has something to say, or one for all of them.
//!
//! A write to stderr can take for ever: on a pipe that nobody reads, or on a terminal that is stopped (Ctrl-S). Threads that
//! collect must not wait for it, nor the end of a collector. So while a [`Printing`] lives, a thread of its own prints.

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Limit on the messages that wait for the printing thread.
const QUEUE: usize = 1024;

/// Whether the progress line is on the terminal. A thread holds this lock while it writes to stderr.
static DRAWN: Mutex<bool> = Mutex::new(false);
/// The way to the printing thread, if there is one. Nobody holds this lock while it waits.
static PRINTER: Mutex<Option<Sender<Message>>> = Mutex::new(None);
/// The sentences that found the queue full. Relaxed: a number for display; nothing is read because of its value.
static UNPRINTED: AtomicU64 = AtomicU64::new(0);

/// Returns to the start of the line and erases it (ECMA-48: CR, EL).
const ERASE: &str = "\r\x1b[K";

enum Message {
    Sentence(String),
    /// The progress line.
    Line(String),
    /// The progress line goes.
    NoLine,
    /// Everything before this is printed when this is dropped.
    Reached(#[allow(dead_code, reason = "it is only dropped")] Sender<()>),
}

/// Prints a sentence in place of the progress line, which is redrawn below it.
pub(super) fn sentence(text: String) {
    pass(Message::Sentence(text));
}

/// Draws the progress line.
pub(super) fn line(text: String) {
    pass(Message::Line(text));
}

/// Erases the progress line.
pub(super) fn no_line() {
    pass(Message::NoLine);
}

/// Leaves a message to the printing thread if there is one and prints it otherwise.
fn pass(message: Message) {
    let printer = PRINTER.lock();
    let Some(sender) = &*printer else {
        drop(printer);
        return print(&message);
    };
    let is_sentence = matches!(message, Message::Sentence(_));
    if sender.try_send(message).is_err() && is_sentence {
        UNPRINTED.fetch_add(1, Ordering::Relaxed);
    }
}

/// A closed stderr is not an error.
fn print(message: &Message) {
    let mut drawn = DRAWN.lock();
    let mut text = match message {
        Message::Line(line) => {
            *drawn = write!(std::io::stderr().lock(), "{ERASE}{line}").is_ok();
            return;
        }
        Message::Sentence(sentence) => format!("gpuspy: {sentence}\n"),
        Message::NoLine | Message::Reached(_) => String::new(),
    };
    if std::mem::take(&mut *drawn) {
        text.insert_str(0, ERASE);
    }
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// While this lives, one thread prints for all others.
pub(super) struct Printing {
    /// How long its end waits for what is not printed yet.
    patience: Duration,
}

impl Printing {
    /// Starts the thread, which inherits the mask of signals. Where it cannot be started, each thread prints what it has to say,
    /// as before.
    pub(super) fn begin(patience: Duration) -> Printing {
        let (sender, receiver) = bounded(QUEUE);
        // It is not waited for if stderr takes nothing: it ends with the process.
        if std::thread::Builder::new().spawn(move || print_all(&receiver)).is_ok() {
            *PRINTER.lock() = Some(sender);
        }
        Printing { patience }
    }
}

impl Drop for Printing {
    fn drop(&mut self) {
        let Some(printer) = PRINTER.lock().clone() else { return };
        let (reached, is_reached) = bounded(0);
        let is_sent = printer.send_timeout(Message::Reached(reached), self.patience).is_ok();
        let is_printed =
            is_sent && is_reached.recv_timeout(self.patience).is_err_and(|e| e.is_disconnected());
        // If stderr takes nothing, nobody waits for it from here on, either.
        if is_printed {
            *PRINTER.lock() = None;
        }
    }
}

fn print_all(messages: &Receiver<Message>) {
    for message in messages {
        print(&message);
        if messages.is_empty() {
            match UNPRINTED.swap(0, Ordering::Relaxed) {
                0 => {}
                1 => print(&Message::Sentence("1 message is missing here: stderr took nothing".to_owned())),
                n => print(&Message::Sentence(format!("{n} messages are missing here: stderr took nothing"))),
            }
        }
    }
}
