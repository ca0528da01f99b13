//! The content of `top`'s screen, and the effects of keys. Pure.

use forebay_core::Result;
use forebay_dashboard::model::Page;
use ratatui::crossterm::event::{KeyCode, KeyModifiers};

use super::feed::{JobId, Look};

/// The most characters of a filter.
const FILTER_CHARS_MAX: usize = 60;
/// The orders of the list of jobs, by their names in a [`Page`].
const ORDERS: [&str; 3] = ["state", "waited", "name"];

/// The view on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Jobs,
    Workers,
    /// The watched job.
    Job,
}

/// The effect of a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Then {
    Go,
    /// Watch this job in full, or none.
    Watch(Option<JobId>),
    End,
}

/// The state of `top`.
#[derive(Debug)]
pub(super) struct App {
    pub(super) service: String,
    /// The last look without an error.
    pub(super) look: Option<Look>,
    /// Why the last look failed.
    pub(super) failure: Option<String>,
    pub(super) view: View,
    pub(super) selected: usize,
    pub(super) filter: String,
    /// Whether keys go to the filter.
    pub(super) types: bool,
    order: usize,
    pub(super) watched: Option<JobId>,
}

impl App {
    pub(super) fn new(service: &str) -> Self {
        Self {
            service: service.to_owned(),
            look: None,
            failure: None,
            view: View::Jobs,
            selected: 0,
            filter: String::new(),
            types: false,
            order: 0,
            watched: None,
        }
    }

    /// Accepts a look, or the error of one.
    pub(super) fn take(&mut self, look: Result<Look>) {
        match look {
            Ok(look) => (self.look, self.failure) = (Some(look), None),
            // The last figures stay on the screen.
            Err(error) => self.failure = Some(error.message().to_owned()),
        }
    }

    /// Returns the name of the present order.
    pub(super) fn order(&self) -> &'static str {
        ORDERS[self.order]
    }

    /// Returns the filter and the order as a page.
    pub(super) fn page(&self) -> Page {
        let mut page = Page::all();
        // Both are valid.
        let _ = page.set("search", &self.filter);
        let _ = page.set("sort", self.order());
        page
    }

    /// Returns the number of rows of the list on the screen.
    fn rows(&self) -> usize {
        let Some(look) = &self.look else { return 0 };
        match self.view {
            View::Jobs => self.page().jobs(&look.snapshot.jobs).1,
            View::Workers => self.page().workers(&look.snapshot.workers).1,
            View::Job => 0,
        }
    }

    /// Returns the job in the selected row.
    fn selected_job(&self) -> Option<JobId> {
        let page = self.page();
        let (jobs, _) = page.jobs(&self.look.as_ref()?.snapshot.jobs);
        jobs.get(self.selected).map(|job| (job.tenant.clone(), job.name.clone()))
    }

    /// Handles a key.
    pub(super) fn press(&mut self, key: KeyCode, modifiers: KeyModifiers) -> Then {
        if key == KeyCode::Char('c') && modifiers.contains(KeyModifiers::CONTROL) {
            return Then::End;
        }
        if self.types {
            return self.edit(key);
        }
        match key {
            KeyCode::Char('q') => return Then::End,
            KeyCode::Down | KeyCode::Char('j') => self.selected = self.selected.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::PageDown => self.selected = self.selected.saturating_add(10),
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(10),
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = usize::MAX,
            KeyCode::Char('/') if self.view != View::Job => self.types = true,
            KeyCode::Char('s') => self.order = (self.order + 1) % ORDERS.len(),
            KeyCode::Char('w') => self.go(if self.view == View::Workers { View::Jobs } else { View::Workers }),
            KeyCode::Enter if self.view == View::Jobs => {
                if let Some(job) = self.selected_job() {
                    self.view = View::Job;
                    self.watched = Some(job.clone());
                    return Then::Watch(Some(job));
                }
            }
            KeyCode::Esc if self.view == View::Job => {
                (self.view, self.watched) = (View::Jobs, None);
                return Then::Watch(None);
            }
            KeyCode::Esc if self.filter.is_empty() => self.go(View::Jobs),
            KeyCode::Esc => self.filter.clear(),
            _ => {}
        }
        self.selected = self.selected.min(self.rows().saturating_sub(1));
        Then::Go
    }

    fn go(&mut self, view: View) {
        (self.view, self.selected, self.watched) = (view, 0, None);
    }

    fn edit(&mut self, key: KeyCode) -> Then {
        match key {
            KeyCode::Enter => self.types = false,
            KeyCode::Esc => {
                self.types = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(c) if self.filter.chars().count() < FILTER_CHARS_MAX => self.filter.push(c),
            _ => {}
        }
        self.selected = 0;
        Then::Go
    }
}
