//! `forebay top`: the jobs and workers of a service in this terminal.
//!
//! - `feed`: the thread that asks the service for its state (a look); `app`: the content of the screen and the effects
//!   of keys, pure; `draw`: the screen, pure; `print`: one look as text or JSON.

mod app;
mod draw;
mod feed;
mod print;

use std::io::IsTerminal;
use std::time::Duration;

use forebay_core::{Error, Result};
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::arguments::Top;
use crate::commands::connect;
use app::{App, Then};

/// How often the screen checks for keys and looks.
const TURN: Duration = Duration::from_millis(100);

pub(crate) fn run(arguments: &Top) -> Result<()> {
    let service = connect(&arguments.list)?;
    if arguments.once || arguments.list.json {
        return print::once(&service, arguments.list.json);
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Error::invalid("`forebay top` needs a terminal").hint("print one look with --once, or --json"));
    }
    let feed = feed::Feed::start(service, Duration::from_secs_f64(arguments.every))?;
    let mut terminal = ratatui::try_init()?;
    let shown = show(&mut terminal, &feed, &arguments.list.service);
    // After `top`, also after an error, the terminal must be as it was before.
    ratatui::restore();
    shown
}

fn show(terminal: &mut ratatui::DefaultTerminal, feed: &feed::Feed, service: &str) -> Result<()> {
    let mut app = App::new(service);
    loop {
        if let Some(look) = feed.latest() {
            app.take(look);
        }
        terminal.draw(|frame| draw::draw(frame, &mut app))?;
        if !event::poll(TURN)? {
            continue;
        }
        if let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
        {
            match app.press(key.code, key.modifiers) {
                Then::Go => {}
                Then::Watch(job) => feed.watch(job),
                Then::End => return Ok(()),
            }
        }
    }
}
