//! `forebay scale`

use forebay_client::KindWanted;
use forebay_core::Result;
use serde::Serialize;

use super::{connect, go_on};
use crate::arguments::List;
use crate::output;

#[derive(Serialize)]
struct Scale<'a> {
    /// `null` while it is not known: then keep the present workers.
    wanted: Option<u32>,
    workers: u32,
    max_workers: u32,
    policy: &'a str,
    kinds: Vec<Kind<'a>>,
}

#[derive(Serialize)]
struct Kind<'a> {
    kind: &'a str,
    spot: bool,
    /// The price of one for an hour.
    price: f64,
    /// The threads of one.
    threads: u32,
    wanted: Option<u32>,
    workers: u32,
    max: u32,
    /// The speed of one thread, relative to those of other kinds.
    pace: f64,
    reason: &'a str,
}

fn kind(of: &KindWanted) -> Kind<'_> {
    Kind {
        kind: &of.kind,
        spot: of.spot,
        price: of.price,
        threads: of.threads,
        wanted: of.wanted,
        workers: of.workers,
        max: of.max,
        pace: of.pace,
        reason: &of.reason,
    }
}

fn known(wanted: Option<u32>) -> String {
    wanted.map_or_else(|| "not known".to_owned(), |n| n.to_string())
}

pub(crate) fn run(arguments: &List) -> Result<()> {
    let scale = connect(arguments)?.scale(&mut go_on)?;
    let wanted = Some(scale.wanted).filter(|&n| n > 0);
    let kinds: Vec<_> = scale.kinds.iter().map(kind).collect();
    if arguments.json {
        let (workers, max_workers, policy) = (scale.workers, scale.workers_max, &scale.policy);
        return output::json(&Scale { wanted, workers, max_workers, policy, kinds });
    }
    output::line(&format!("wanted     {}, of {} at most", known(wanted), scale.workers_max))?;
    output::line(&format!("workers    {}", scale.workers))?;
    output::line(&format!("policy     {}", scale.policy))?;
    if kinds.is_empty() {
        return Ok(());
    }
    let row = |of: &KindWanted| {
        let numbers = [of.price.to_string(), of.threads.to_string(), format!("{:.2}", of.pace)];
        let [price, threads, pace] = numbers;
        let (there, most) = (of.workers.to_string(), of.max.to_string());
        [of.named(), price, threads, pace, known(of.wanted), there, most, of.reason.clone()]
    };
    let headings = ["KIND", "PRICE", "THREADS", "PACE", "WANTED", "THERE", "MOST", "WHY"];
    output::table(headings, &scale.kinds.iter().map(row).collect::<Vec<_>>())
}
