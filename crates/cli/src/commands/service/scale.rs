//! `forebay scale`

use forebay_client::KindWanted;
use forebay_core::Result;
use forebay_dashboard::model::Scale;

use crate::arguments::List;
use crate::commands::{connect, go_on};
use crate::output;

fn known(wanted: Option<u32>) -> String {
    wanted.map_or_else(|| "not known".to_owned(), |n| n.to_string())
}

pub(crate) fn run(arguments: &List) -> Result<()> {
    let scale = connect(arguments)?.scale(&mut go_on)?;
    let wanted = Some(scale.wanted).filter(|&n| n > 0);
    if arguments.json {
        return output::json(&Scale::of(&scale));
    }
    output::line(&format!("wanted     {}, of {} at most", known(wanted), scale.workers_max))?;
    output::line(&format!("workers    {}", scale.workers))?;
    output::line(&format!("policy     {}", scale.policy))?;
    if scale.kinds.is_empty() {
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
