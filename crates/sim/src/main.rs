//! Runs seeds of the simulation, and stops at the first that fails: prints its scenario, its events, and the command to
//! replay it.

#![expect(clippy::disallowed_methods, reason = "it says how long a run took")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use forebay_sim::{Planted, Simulator, Worlds};

/// The real dispatcher, workers and consumers on a virtual clock, network and disk that fail.
#[derive(Parser)]
struct Arguments {
    /// One seed, with everything that happens in it.
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Seeds from A up to B (not included).
    #[arg(long, value_name = "A..B", value_parser = range, default_value = "0..1000")]
    seeds: (u64, u64),
    /// Which worlds are drawn: `plain`, or `mixed` ones, whose jobs also leave samples out, have twins, are coordinated and cancelled.
    #[arg(long, value_parser = worlds, default_value = "plain")]
    worlds: Worlds,
    /// A bug to put in: the simulation must find it.
    #[arg(long, value_parser = planted)]
    planted: Option<Planted>,
    /// How many of the last events of a seed that failed are printed, heartbeats aside.
    #[arg(long, default_value_t = 60)]
    events: usize,
    /// Names every seed that fails, and goes on.
    #[arg(long)]
    keep_going: bool,
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let (from, to) = text.split_once("..").ok_or("write A..B")?;
    let number = |t: &str| t.parse::<u64>().map_err(|e| format!("{t:?}: {e}"));
    Ok((number(from)?, number(to)?))
}

fn worlds(text: &str) -> Result<Worlds, String> {
    Worlds::ALL.iter().find(|(name, _)| *name == text).map(|(_, w)| *w).ok_or_else(|| "one of plain, mixed".to_owned())
}

fn planted(text: &str) -> Result<Planted, String> {
    let names = || Planted::ALL.map(|(name, _)| name).join(", ");
    Planted::ALL.iter().find(|(name, _)| *name == text).map(|(_, p)| *p).ok_or_else(|| format!("one of {}", names()))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let simulator = Simulator::default();
    let (from, to) = arguments.seed.map_or(arguments.seeds, |seed| (seed, seed + 1));
    let start = Instant::now();
    let (mut events, mut time, mut failures) = (0, 0, 0);
    let mut felt: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in from..to {
        let scenario = simulator.scenario(arguments.worlds, seed);
        let outcome = simulator.run(&scenario, arguments.planted, false);
        (events, time) = (events + outcome.events, time + outcome.time);
        outcome.felt.iter().for_each(|(what, times)| *felt.entry(what).or_default() += times);
        if let Some(violation) = outcome.violation {
            if arguments.keep_going {
                println!("seed {seed}: {violation}");
                failures += 1;
                continue;
            }
            failed(&simulator, &arguments, seed);
            return ExitCode::FAILURE;
        }
        if arguments.seed.is_some() {
            let outcome = simulator.run(&scenario, arguments.planted, true);
            print!("{scenario}{}", simulator.describe(&scenario));
            outcome.lines.iter().for_each(|line| println!("{line}"));
            println!("history {:016x}", outcome.history);
        }
    }
    println!("felt {felt:?}");
    let (seconds, seeds) = (start.elapsed().as_secs_f64(), to.saturating_sub(from));
    println!(
        "{seeds} seeds, {failures} violations, in {seconds:.1} s: {:.0} seeds/s, {events} events, {:.1} virtual hours",
        seeds as f64 / seconds,
        time as f64 / 3_600_000.0
    );
    if failures > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Prints a failure: as drawn, and with only the faults that it needs.
fn failed(simulator: &Simulator, arguments: &Arguments, seed: u64) {
    let planted = arguments.planted;
    let scenario = simulator.scenario(arguments.worlds, seed);
    println!("{scenario}{}", simulator.describe(&scenario));
    let least = simulator.shrink(scenario.clone(), planted);
    let outcome = simulator.run(&least, planted, true);
    let lines: Vec<_> = outcome.lines.iter().filter(|line| !line.contains("Heartbeat")).collect();
    let skipped = lines.len().saturating_sub(if arguments.seed.is_some() { usize::MAX } else { arguments.events });
    println!("{} of {} faults are enough:", least.faults.len(), scenario.faults.len());
    least.faults.iter().for_each(|(at, fault)| println!("  {at:>6} ms  {fault:?}"));
    println!("what happened then ({skipped} events before are left out):");
    lines.iter().skip(skipped).for_each(|line| println!("{line}"));
    println!("violated: {}", outcome.violation.unwrap_or_default());
    let name = Planted::ALL.iter().find(|(_, p)| Some(*p) == planted).map(|(name, _)| format!(" --planted {name}"));
    let worlds = Worlds::ALL.iter().find(|(_, w)| *w == arguments.worlds).map_or("plain", |(name, _)| name);
    let planted = name.unwrap_or_default();
    println!("replay: cargo run --release -p forebay-sim -- --worlds {worlds} --seed {seed}{planted}");
}
