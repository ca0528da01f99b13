//! One line with the progress of long work: drawn on a terminal's stderr only, after a second, and erased when done.
//!
//! It has forty lines, and a crate for it is as large as this one. Progress is optional, so errors of drawing are
//! ignored. Invariant: if stderr is no terminal, not a byte is written.

#![expect(clippy::disallowed_methods, reason = "progress is drawn a few times a second, on terminals that can")]

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Work shorter than this shows no progress.
const SHOW_AFTER: Duration = Duration::from_secs(1);
/// How often the line is drawn again.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// Characters of the bar.
const WIDTH: u64 = 24;
/// Moves to the start of the line, and erases it.
const ERASE: &str = "\r\u{1b}[K";

/// The progress of one piece of work. Dropping it erases the line.
#[derive(Debug)]
pub struct Progress {
    what: String,
    unit: String,
    start: Instant,
    drawing: Option<Mutex<Drawing>>,
}

#[derive(Debug, Default)]
struct Drawing {
    done: u64,
    total: u64,
    drawn: Option<Instant>,
}

impl Progress {
    /// Starts the clock. `what` names the work ("indexing"), `unit` its items ("files").
    pub fn new(what: impl Into<String>, unit: impl Into<String>) -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|t| t == "dumb");
        let drawing = (std::io::stderr().is_terminal() && !dumb).then(Mutex::default);
        Self { what: what.into(), unit: unit.into(), start: Instant::now(), drawing }
    }

    /// Shows how much is done; a `total` of 0 is unknown.
    pub fn show(&self, done: u64, total: u64) {
        self.draw(|drawing| (drawing.done, drawing.total) = (done, total));
    }

    /// Redraws the line as time passes.
    pub fn tick(&self) {
        self.draw(|_| {});
    }

    fn draw(&self, update: impl FnOnce(&mut Drawing)) {
        let Some(drawing) = &self.drawing else { return };
        let mut drawing = drawing.lock().unwrap_or_else(PoisonError::into_inner);
        update(&mut drawing);
        let elapsed = self.start.elapsed();
        if elapsed < SHOW_AFTER || drawing.drawn.is_some_and(|at| at.elapsed() < DRAW_EVERY) {
            return;
        }
        drawing.drawn = Some(Instant::now());
        write(&format!("{ERASE}{}", line(&self.what, &self.unit, drawing.done, drawing.total, elapsed)));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let drawing = self.drawing.take().map(|d| d.into_inner().unwrap_or_else(PoisonError::into_inner));
        if drawing.is_some_and(|d| d.drawn.is_some()) {
            write(ERASE);
        }
    }
}

fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

fn line(what: &str, unit: &str, done: u64, total: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    if total == 0 {
        return format!("forebay: {what}, {seconds} s");
    }
    let done = done.min(total);
    let full = (u128::from(WIDTH) * u128::from(done) / u128::from(total)) as usize;
    let bar = "█".repeat(full) + &"░".repeat(WIDTH as usize - full);
    format!("forebay: {what} {bar} {done} of {total} {unit}, {seconds} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_and_for_how_long() {
        let at = |done, total| line("indexing", "files", done, total, Duration::from_millis(2900));
        assert_eq!(at(1, 4), format!("forebay: indexing {}{} 1 of 4 files, 2 s", "█".repeat(6), "░".repeat(18)));
        assert_eq!(at(u64::MAX, u64::MAX).matches('█').count(), 24);
        assert_eq!(at(9, 0), "forebay: indexing, 2 s");
    }
}
