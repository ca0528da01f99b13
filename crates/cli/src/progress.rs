//! One line with the progress of long work: drawn after a second, and erased when done.
//!
//! It is drawn on a terminal's stderr, and in a notebook. `FOREBAY_PROGRESS=0` turns it off; `FOREBAY_PROGRESS=1` also
//! writes to a stderr that is no terminal, a line every five seconds. It is small, and a crate for it is as large as
//! this one. Progress is optional, so errors of drawing are ignored. Invariant: without `FOREBAY_PROGRESS=1`, not a byte
//! goes to a stderr that is no terminal.

#![expect(clippy::disallowed_methods, reason = "progress is drawn a few times a second, on terminals that can")]

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Work shorter than this shows no progress.
const SHOW_AFTER: Duration = Duration::from_secs(1);
/// How often the line is drawn again.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// How often a line is written to a log.
const LOG_EVERY: Duration = Duration::from_secs(5);
/// Characters of the bar.
const WIDTH: u64 = 24;
/// Moves to the start of the line, and erases it.
const ERASE: &str = "\r\u{1b}[K";

/// Writes to the output of a notebook's cell.
pub type NotebookWriter = fn(&str);

/// Finds the notebook of this process.
static NOTEBOOK: OnceLock<fn() -> Option<NotebookWriter>> = OnceLock::new();

/// Sets how a process finds out whether it runs a notebook. Only the first call counts.
pub fn find_notebook_by(find: fn() -> Option<NotebookWriter>) {
    let _ = NOTEBOOK.set(find);
}

/// Where the line is drawn.
#[derive(Debug, Clone, Copy)]
enum Surface {
    Terminal,
    Notebook(NotebookWriter),
    Log,
}

/// The progress of one piece of work. Dropping it erases the line.
#[derive(Debug)]
pub struct Progress {
    what: String,
    unit: String,
    start: Instant,
    drawing: Option<(Surface, Mutex<Drawing>)>,
}

#[derive(Debug, Default)]
struct Drawing {
    done: u64,
    total: u64,
    drawn: Option<Instant>,
    /// The characters of the drawn line.
    width: usize,
}

impl Progress {
    /// Starts the clock. `what` names the work ("indexing"), `unit` its items ("files").
    pub fn new(what: impl Into<String>, unit: impl Into<String>) -> Self {
        let drawing = Surface::find().map(|surface| (surface, Mutex::default()));
        Self { what: what.into(), unit: unit.into(), start: Instant::now(), drawing }
    }

    /// Returns whether a line will be drawn if the work takes longer than a second.
    pub fn is_shown(&self) -> bool {
        self.drawing.is_some()
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
        let Some((surface, drawing)) = &self.drawing else { return };
        let mut drawing = drawing.lock().unwrap_or_else(PoisonError::into_inner);
        update(&mut drawing);
        let elapsed = self.start.elapsed();
        let every = if matches!(surface, Surface::Log) { LOG_EVERY } else { DRAW_EVERY };
        if elapsed < SHOW_AFTER || drawing.drawn.is_some_and(|at| at.elapsed() < every) {
            return;
        }
        drawing.drawn = Some(Instant::now());
        let text = line(&self.what, &self.unit, drawing.done, drawing.total, elapsed);
        drawing.width = surface.draw(&text, drawing.width);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let Some((surface, drawing)) = self.drawing.take() else { return };
        let drawing = drawing.into_inner().unwrap_or_else(PoisonError::into_inner);
        if drawing.drawn.is_some() {
            surface.erase(drawing.width);
        }
    }
}

impl Surface {
    fn find() -> Option<Self> {
        let wanted = std::env::var_os("FOREBAY_PROGRESS");
        let is = |words: &[&str]| wanted.as_ref().is_some_and(|wanted| words.iter().any(|word| wanted == word));
        if is(&["0", "off"]) {
            return None;
        }
        if let Some(writer) = NOTEBOOK.get().and_then(|find| find()) {
            return Some(Self::Notebook(writer));
        }
        let dumb = std::env::var_os("TERM").is_some_and(|t| t == "dumb");
        if std::io::stderr().is_terminal() && !dumb {
            return Some(Self::Terminal);
        }
        is(&["1", "on"]).then_some(Self::Log)
    }

    /// Draws a line over the last one, which had `width` characters. Returns its width.
    fn draw(self, text: &str, width: usize) -> usize {
        match self {
            Self::Terminal => write(&format!("{ERASE}{text}")),
            // Not all notebooks know the sequence that erases a line.
            Self::Notebook(write) => write(&format!("\r{text:<width$}")),
            Self::Log => write(&format!("{text}\n")),
        }
        text.chars().count()
    }

    fn erase(self, width: usize) {
        match self {
            Self::Terminal => write(ERASE),
            Self::Notebook(write) => write(&format!("\r{:<width$}\r", "")),
            Self::Log => {}
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
