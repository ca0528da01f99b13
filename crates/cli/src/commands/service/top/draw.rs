//! The screen of `top`. Pure. A small terminal shows fewer columns and rows.

use forebay_client::JobStatus;
use forebay_dashboard::model::{Detail, Op, Overview, Snapshot, Worker, workers_of};
use forebay_dashboard::why::Bound;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row, Table, TableState, Wrap};

use super::app::{App, View};
use super::print::{cut, percent};
use crate::output::{bytes, harmless};

/// Widths of a terminal from which more columns are shown.
const MEDIUM: u16 = 60;
const WIDE: u16 = 100;
const NAME_CHARS_MAX: usize = 60;

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App) {
    let rows = [Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)];
    let [top, middle, bottom] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(Paragraph::new(head(app)).style(Style::new().add_modifier(Modifier::REVERSED)), top);
    frame.render_widget(Paragraph::new(foot(app)), bottom);
    let Some(look) = app.look.take() else {
        frame.render_widget(Paragraph::new("asking the dispatcher…"), middle);
        return;
    };
    match (app.view, &look.job) {
        (View::Jobs, _) => jobs(frame, middle, app, &look.snapshot),
        (View::Workers, _) => workers(frame, middle, app, &look.snapshot),
        (View::Job, Some(job)) if is_watched(app, job) => of_job(frame, middle, job, &look.snapshot),
        (View::Job, _) => frame.render_widget(Paragraph::new("asking for the job…"), middle),
    }
    app.look = Some(look);
}

fn is_watched(app: &App, job: &JobStatus) -> bool {
    app.watched.as_ref().is_some_and(|(tenant, name)| *tenant == job.tenant && *name == job.name)
}

fn head(app: &App) -> String {
    let figures = app.look.as_ref().map(|look| {
        let running = look.snapshot.jobs.iter().filter(|job| job.state == "running").count();
        let live = look.snapshot.workers.iter().filter(|w| w.state != "lost").count();
        format!("{running}/{} jobs run  {live} workers", look.snapshot.jobs.len())
    });
    let filter = if app.filter.is_empty() { String::new() } else { format!("  /{}", harmless(&app.filter)) };
    format!("forebay top  {}{filter}  {}", figures.unwrap_or_default(), harmless(&app.service))
}

fn foot(app: &App) -> Line<'_> {
    if let Some(failure) = &app.failure {
        return Line::styled(harmless(failure), Style::new().fg(Color::Red));
    }
    if app.types {
        return Line::raw(format!("filter: {}_", harmless(&app.filter)));
    }
    Line::raw(match app.view {
        View::Job => "Esc back  q end".to_owned(),
        _ => format!("q end  Enter job  w workers  / filter  s sort: {}", app.order()),
    })
}

fn colour(bound: Bound) -> Style {
    match bound {
        Bound::Data => Style::new().fg(Color::Yellow),
        Bound::Training => Style::new().fg(Color::Green),
        _ => Style::new(),
    }
}

/// Draws a list with its selected row. `columns`: heading, width, and the least terminal that shows it.
fn list(
    frame: &mut Frame<'_>,
    area: Rect,
    columns: &[(&str, Constraint, u16)],
    rows: Vec<(Vec<String>, Style)>,
    at: usize,
) {
    let shown: Vec<_> = (0..columns.len()).filter(|i| area.width >= columns[*i].2).collect();
    let of = |cells: Vec<String>| shown.iter().map(|i| cells.get(*i).cloned().unwrap_or_default()).collect::<Vec<_>>();
    let heading = of(columns.iter().map(|(heading, ..)| (*heading).to_owned()).collect());
    let count = rows.len();
    let rows = rows.into_iter().map(|(cells, style)| Row::new(of(cells)).style(style));
    let table = Table::new(rows, shown.iter().map(|i| columns[*i].1))
        .header(Row::new(heading).style(Style::new().add_modifier(Modifier::BOLD)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::default().with_selected((count > 0).then(|| at.min(count - 1)));
    frame.render_stateful_widget(table, area, &mut state);
}

fn jobs(frame: &mut Frame<'_>, area: Rect, app: &App, snapshot: &Snapshot) {
    let seen = Overview::of(snapshot, &app.page(), |_| Vec::new());
    let columns = [
        ("JOB", Constraint::Fill(2), 0),
        ("STATE", Constraint::Length(12), MEDIUM),
        ("BATCH/S", Constraint::Length(8), MEDIUM),
        ("WAITS", Constraint::Length(6), 0),
        ("WORKERS", Constraint::Length(9), MEDIUM),
        ("DONE", Constraint::Length(6), MEDIUM),
        ("WHAT HOLDS IT BACK", Constraint::Fill(5), WIDE),
    ];
    let row = |job: &forebay_dashboard::model::Summary<'_>| {
        let tenant = if job.tenant.is_empty() { String::new() } else { format!("{}/", job.tenant) };
        let cells = vec![
            cut(&format!("{tenant}{}", job.name), NAME_CHARS_MAX),
            job.state.to_owned(),
            format!("{:.1}", job.recent.batches_per_s),
            percent(job.recent.waited),
            workers_of(job.workers_computing, job.workers),
            percent(job.progress),
            harmless(&job.why.sentence),
        ];
        (cells, colour(job.why.bound))
    };
    list(frame, area, &columns, seen.jobs.iter().map(row).collect(), app.selected);
}

fn workers(frame: &mut Frame<'_>, area: Rect, app: &App, snapshot: &Snapshot) {
    let page = app.page();
    let (found, _) = page.workers(&snapshot.workers);
    let columns = [
        ("WORKER", Constraint::Length(9), 0),
        ("STATE", Constraint::Length(8), 0),
        ("KIND", Constraint::Length(10), MEDIUM),
        ("ADDRESS", Constraint::Fill(1), MEDIUM),
        ("THREADS", Constraint::Length(8), MEDIUM),
        ("HOLDS", Constraint::Length(6), MEDIUM),
        ("SPLITS", Constraint::Length(9), WIDE),
        ("SILENT", Constraint::Length(8), WIDE),
    ];
    let row = |worker: Worker<'_>| {
        let bad = ["lost", "slow", "leaving"].contains(&worker.state);
        let cells = vec![
            worker.worker.get(..8).unwrap_or(worker.worker).to_owned(),
            worker.state.to_owned(),
            cut(worker.kind, 10),
            cut(if worker.local { "local" } else { worker.address }, NAME_CHARS_MAX),
            worker.threads.to_string(),
            worker.leases.to_string(),
            worker.splits_done.map_or_else(|| "-".to_owned(), |n| n.to_string()),
            format!("{:.1} s", worker.silent_ms as f64 / 1e3),
        ];
        (cells, if bad { Style::new().fg(Color::Yellow) } else { Style::new() })
    };
    list(frame, area, &columns, found.into_iter().map(Worker::of).map(row).collect(), app.selected);
}

fn of_job(frame: &mut Frame<'_>, area: Rect, job: &JobStatus, snapshot: &Snapshot) {
    let of = Detail::of(job, snapshot);
    let consumers = of.job.consumers.len() as u16;
    let parts = [Constraint::Length(4), Constraint::Min(3), Constraint::Length((consumers + 1).min(8))];
    let [top, middle, bottom] = Layout::vertical(parts).areas(area);
    let recent = &of.recent;
    let title = format!(
        "{}  {}  {:.1} batches/s  {}/s  done {}",
        cut(of.job.name, NAME_CHARS_MAX),
        of.job.state,
        recent.batches_per_s,
        bytes(recent.bytes_per_s as u64),
        percent(of.progress)
    );
    let why = Line::styled(harmless(&of.why.sentence), colour(of.why.bound));
    frame.render_widget(Paragraph::new(vec![Line::raw(title), why]).wrap(Wrap { trim: true }), top);
    ops(frame, middle, &of.job.ops);
    let columns = [
        ("CONSUMER", Constraint::Length(9), 0),
        ("AT", Constraint::Fill(1), 0),
        ("WAITS", Constraint::Length(6), MEDIUM),
        ("AHEAD", Constraint::Length(6), MEDIUM),
    ];
    let row = |c: &forebay_dashboard::model::Consumer| {
        (vec![c.consumer.to_string(), c.progress(), percent(c.recent.waited), c.ahead.to_string()], Style::new())
    };
    list(frame, bottom, &columns, of.job.consumers.iter().map(row).collect(), usize::MAX);
}

fn ops(frame: &mut Frame<'_>, area: Rect, ops: &[Op<'_>]) {
    let most = ops.iter().filter_map(|op| op.share).fold(0.0, f64::max);
    let columns = [
        ("OP", Constraint::Fill(1), 0),
        ("CPU", Constraint::Length(6), 0),
        ("AT", Constraint::Length(8), MEDIUM),
        ("US/ROW", Constraint::Length(9), MEDIUM),
        ("ROWS", Constraint::Length(11), WIDE),
    ];
    let row = |op: &Op<'_>| {
        let hot = most > 0.0 && op.share == Some(most);
        let cells = vec![
            cut(op.op, NAME_CHARS_MAX),
            percent(op.share),
            if op.at == "reader" { "trainer".to_owned() } else { op.at.to_owned() },
            format!("{:.1}", op.row_us),
            op.rows_in.to_string(),
        ];
        (cells, if hot { Style::new().fg(Color::Yellow) } else { Style::new() })
    };
    list(
        frame,
        area,
        &columns,
        ops.iter().map(row).collect(),
        ops.iter().position(|op| op.share == Some(most)).unwrap_or(0),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::service::top::app::Then;
    use crate::commands::service::top::feed::Look;
    use forebay_client::{ConsumerStatus, OpStatus, WorkerStatus};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyModifiers};

    fn look() -> Look {
        let consumer = ConsumerStatus { attached: true, ..ConsumerStatus::default() };
        let op = |op: &str| OpStatus { op: op.to_owned(), row_us: 2.0, rows_in: 9, ..OpStatus::default() };
        let job = |name: &str| JobStatus {
            name: name.to_owned(),
            state: "running".to_owned(),
            consumers: vec![consumer; 40],
            ops: vec![op("read"), op("\u{1b}]0;owned\u{7}"), op(&"long".repeat(3000))],
            ..JobStatus::default()
        };
        let jobs = vec![job("résumé"), job("\u{1b}[31mred\u{202e}"), job(&"x".repeat(10_000)), job("日本語")];
        let workers = vec![WorkerStatus { worker: "é".to_owned(), ..WorkerStatus::default() }; 3];
        Look { job: jobs.get(2).cloned(), snapshot: Snapshot { jobs, workers, ..Snapshot::default() } }
    }

    fn screen(app: &mut App, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(frame, app)).expect("drawn");
        terminal.backend().to_string()
    }

    #[test]
    fn every_size_shows_what_fits_and_no_name_is_obeyed() {
        let mut app = App::new("forebay://h:1");
        let keys = ['k', 'j', 'j', 's', '\n', 'x', '\u{1b}', 'w', '/', 'x', '\n', '\u{1b}'];
        for (width, height) in [(20, 5), (1, 1), (60, 3), (200, 50), (100, 30)] {
            assert!(!screen(&mut app, width, height).contains('\u{1b}'));
            app.take(Ok(look()));
            for key in keys {
                let code = match key {
                    '\n' => KeyCode::Enter,
                    '\u{1b}' => KeyCode::Esc,
                    c => KeyCode::Char(c),
                };
                assert_ne!(app.press(code, KeyModifiers::NONE), Then::End);
                let shown = screen(&mut app, width, height);
                assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'), "{shown}");
            }
            app = App::new("forebay://h:1");
        }
    }

    #[test]
    fn a_job_is_found_opened_and_left_and_a_failure_keeps_the_figures() {
        let mut app = App::new("h:1");
        app.take(Ok(look()));
        let press = |app: &mut App, key| app.press(key, KeyModifiers::NONE);
        press(&mut app, KeyCode::Char('/'));
        "xxx".chars().for_each(|c| drop(press(&mut app, KeyCode::Char(c))));
        press(&mut app, KeyCode::Enter);
        assert!(screen(&mut app, 120, 12).contains("xxxx"));
        let Then::Watch(Some((_, name))) = press(&mut app, KeyCode::Enter) else { panic!("it is opened") };
        assert_eq!(name.len(), 10_000);
        assert!(screen(&mut app, 120, 20).contains("Nothing is known yet"));
        app.take(Err(forebay_core::Error::unavailable("gone\u{1b}[2J")));
        assert!(screen(&mut app, 120, 20).contains("gone·[2J"));
        assert_eq!(press(&mut app, KeyCode::Esc), Then::Watch(None));
        assert_eq!(app.press(KeyCode::Char('c'), KeyModifiers::CONTROL), Then::End);
    }
}
