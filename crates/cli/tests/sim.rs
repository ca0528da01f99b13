//! `forebay sim`: what it prints, that it prints the same again, and what it refuses.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use forebay_policy::scaling::{Decision, Figures, Reason};
use serde_json::{Value, json};

const JOB: [&str; 6] = ["--step", "50ms", "--batch-cost", "230ms", "--batches", "100000"];

fn sim(arguments: &[&str]) -> Output {
    let forebay = env!("CARGO_BIN_EXE_forebay");
    Command::new(forebay).arg("sim").args(arguments).stdin(Stdio::null()).output().expect("it starts")
}

fn stdout(arguments: &[&str]) -> String {
    let output = sim(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn job<'a>(more: &[&'a str]) -> Vec<&'a str> {
    JOB.iter().chain(more).copied().collect()
}

/// 20 batches/s are wanted, a worker makes 4.35: five feed the trainer for 5000 s, four let it wait for 750 s more.
#[test]
fn the_table_has_what_can_be_worked_out_by_hand() {
    let fixed = ["--policy", "static:5", "--policy", "static:4", "--startup", "0s", "--noise", "0"];
    let prices = ["--trainer-price", "31.2", "--worker-price", "0.38"];
    let table = "\
POLICY          TIME     PRICE  TIME/BEST  PRICE/BEST  CHANGES  SETTLED  WAITED  WORKER-HOURS
static:5        1:23:20  45.97  1.000      1.000       0        0 s      0.0 %   6.94
static:4        1:35:50  52.26  1.150      1.137       0        0 s      13.0 %  6.39
best: static:5  1:23:20  45.97  1.000      1.000       0        0 s      0.0 %   6.94
";
    assert_eq!(stdout(&[job(&fixed), prices.to_vec()].concat()), table);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let arguments = job(&["--then", "20m:150ms", "--lost-every", "30m", "--noise", "0.1", "--json"]);
    let first = stdout(&arguments);
    assert_eq!(first, stdout(&arguments));
    assert_ne!(first, stdout(&[arguments, vec!["--seed", "1"]].concat()));
    let report: Value = serde_json::from_str(&first).expect("JSON");
    let policies: Vec<_> = report["policies"].as_array().expect("rows").iter().map(|row| &row["policy"]).collect();
    assert_eq!(policies, ["forebay", "cachew", "hpa"]);
}

#[test]
fn a_job_that_ran_is_simulated_as_if_its_figures_were_given() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("figures.json");
    let figures = Figures {
        workers: 5,
        demand: 20.0,
        supply: 1.0 / 0.23,
        compute: 0.23,
        waited: 0.0,
        delivered: 20.0,
        local: 0,
        spare: 0.0,
        pressure: 0.0,
    };
    let decided = |figures| Decision { workers: 5, local: 0, cut: None, reason: Reason::Enough { at_most: 0.02 }, figures };
    let decision =
        |figures| json!({"ago_s": 1.0, "before": 1, "workers": 5, "reason": "", "figures": decided(figures)});
    let shown = json!([{"name": "resnet50", "decisions": [decision(Some(figures)), decision(None)]}]);
    std::fs::write(&path, shown.to_string()).expect("written");
    let profile = ["--profile", path.to_str().expect("a path"), "--batches", "100000"];
    let more = ["--policy", "forebay", "--json"];
    assert_eq!(stdout(&[&profile[..], &more].concat()), stdout(&job(&more)));
    // One row for each number of workers, and the policy; a heading and the best.
    assert_eq!(stdout(&profile).lines().count(), 19);
}

#[test]
fn several_jobs_come_from_a_file_and_can_be_drawn() {
    let tenants = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tenants.json");
    let folder = tempfile::tempdir().expect("a folder");
    let svg = folder.path().join("workers.svg");
    let paths = [&tenants, &svg].map(|path| path.to_str().expect("a path"));
    let text = stdout(&["--job", paths[0], "--max-workers", "10", "--plot", "--svg", paths[1], "--policy", "forebay"]);
    let two = text.lines().find(|line| line.starts_with("forebay  two")).expect("a row of the second job");
    assert_eq!(two.split_whitespace().nth(3), Some("4"), "{text}");
    assert!(text.contains('█'), "{text}");
    let drawn = std::fs::read_to_string(svg).expect("a drawing");
    assert!(drawn.starts_with("<svg ") && drawn.ends_with("</svg>\n") && drawn.contains(">forebay</text>"), "{drawn}");
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = folder.path().join("jobs.json");
    std::fs::write(&wrong, "{\"jobs\": [{\"name\": \"x\", \"step\": 5}]}").expect("written");
    let wrong = wrong.to_str().expect("a path");
    let cases: [(Vec<&str>, i32, &[&str]); 10] = [
        (job(&["--trainer-price", "-1", "--worker-price", "1"]), 1, &["the price of a trainer is -1", "hint:"]),
        (job(&["--trainer-price", "31.2"]), 2, &["--worker-price"]),
        (job(&["--policy", "static:65"]), 1, &["static:65 is more than the 64 workers"]),
        (job(&["--policy", "best"]), 2, &["is no policy"]),
        (job(&["--then", "20s:0s"]), 1, &["a step is 0", "job: job", "hint:"]),
        (vec!["--step", "50", "--batch-cost", "1s", "--batches", "9"], 2, &["is no time", "50ms"]),
        (vec!["--step", "50ms"], 2, &["--batch-cost"]),
        (job(&["--job", wrong]), 2, &["cannot be used with"]),
        (vec!["--job", wrong], 1, &["line 1", "jobs.json", "hint:"]),
        (vec!["--job", "no-such-file"], 4, &["file: no-such-file"]),
    ];
    for (arguments, code, told) in cases {
        let output = sim(&arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty() && told.iter().all(|text| stderr.contains(text)), "{arguments:?}: {stderr}");
    }
}
