//! `forebay sim`: its output, the repeatability of the output, and its refusals.

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

/// The trainer demands 20 batches/s, a worker makes 4.35: five feed the trainer for 5000 s, four let it wait for 750 s
/// more.
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

/// A second worker, of which half is needed, would double the price and take off a third of the time.
#[test]
fn the_price_may_be_what_is_made_small() {
    let workers = |objective: &str| {
        let of = ["--step", "66ms", "--batch-cost", "100ms", "--batches", "30000", "--policy", "forebay", "--json"];
        let prices = ["--trainer-price", "0.1", "--worker-price", "1", "--objective", objective];
        let report: Value = serde_json::from_str(&stdout(&[&of[..], &prices].concat())).expect("JSON");
        let [row] = report["policies"].as_array().expect("rows").as_slice() else { panic!("one policy: {report}") };
        row["worker_hours"].as_f64().expect("a number") * 3600.0 / row["time_s"].as_f64().expect("a number")
    };
    let (time, cost) = (workers("time"), workers("cost"));
    assert!(time > 1.9 && cost < 1.1, "{time} {cost}");
    assert!(workers("cost-within:1.05") > 1.9);
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
        beside: 0.0,
        supply: 1.0 / 0.23,
        compute: 0.23,
        waited: 0.0,
        delivered: 20.0,
        made: 20.0,
        local: 0,
        spare: 0.0,
        pressure: 0.0,
        send: 0.0,
        receive: 0.0,
    };
    let decided =
        |figures| Decision { workers: 5, local: 0, cut: None, reason: Reason::Enough { at_most: 0.02 }, figures };
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

/// 23.5 threads feed the trainer, and 26 cores are spare; after ten minutes 4 are, and three workers do all but the last op.
#[test]
fn a_job_is_placed_on_workers_and_at_its_trainer() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/placement.json");
    let example = path.to_str().expect("a path");
    let report =
        stdout(&["--job", example, "--threads", "8", "--policy", "forebay", "--policy", "static:3+4@1", "--json"]);
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let changes = report["policies"][0]["jobs"][0]["changes"].as_array().expect("changes");
    let at = |change: &Value| ["workers", "local", "cut"].map(|name| change[name].as_u64().expect("a number"));
    let [first, last] =
        [changes.iter().rfind(|c| c["at_s"].as_f64() < Some(600.0)), changes.last()].map(|c| at(c.expect("one")));
    assert_eq!(first[0], 0, "{report}");
    assert!((24..=25).contains(&first[1]), "{report}");
    assert_eq!((last[0], last[2]), (3, 1), "{report}");
    let table = stdout(&["--job", example, "--threads", "8", "--policy", "static:3+4@1"]);
    assert!(table.contains("BOUNDARY") && table.contains("static:3+4@1"), "{table}");
}

/// The ops of the example, as a service would have reported them after 1000 batches of 256 rows.
#[test]
fn a_job_that_ran_is_placed_by_the_figures_of_its_ops() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/placement.json");
    let folder = tempfile::tempdir().expect("a folder");
    let mut figures = json!({"workers": 3, "demand": 10.0, "supply": 3.636, "compute": 2.2, "waited": 0.0});
    figures["delivered"] = json!(10.0);
    let op = |at: &str, batches: f64, cost: f64, bytes: f64| {
        let rows = 256.0 * batches;
        let (bytes, us) = (bytes * batches, cost * 1e6 / 256.0);
        json!({"op": "x", "at": at, "rows_in": rows, "rows_out": rows, "bytes_out": bytes, "row_us": us})
    };
    let ops = [op("workers", 1000.0, 2.2, 38.5e6), op("local", 100.0, 5.0, 38.5e6), op("reader", 500.0, 0.15, 154e6)];
    let shown = |ops: &[Value]| json!([{"decisions": [{"figures": {"figures": figures}}], "ops": ops}]).to_string();
    std::fs::write(folder.path().join("figures.json"), shown(&ops)).expect("written");
    let mut jobs: Value = serde_json::from_slice(&std::fs::read(&example).expect("the example")).expect("JSON");
    let entry = jobs["jobs"][0].as_object_mut().expect("a job");
    entry.retain(|key, _| !matches!(key.as_str(), "ops" | "step"));
    entry.insert("profile".to_owned(), json!("figures.json"));
    let path = folder.path().join("jobs.json");
    std::fs::write(&path, jobs.to_string()).expect("written");
    let placed = |path: &Path| {
        let path = path.to_str().expect("a path");
        stdout(&["--job", path, "--threads", "8", "--policy", "forebay", "--policy", "static:3+4@1"])
    };
    assert_eq!(placed(&path), placed(&example));
    std::fs::write(folder.path().join("figures.json"), shown(&[])).expect("written");
    let output = sim(&["--job", path.to_str().expect("a path")]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("it has no measurements of ops"), "{told}");
}

#[test]
fn pecans_table_has_a_row_for_each_workload_and_system() {
    let table = stdout(&["--pecan"]);
    assert_eq!(table.lines().count(), 1 + 5 * 7, "{table}");
    assert!(table.starts_with("WORKLOAD") && table.contains("SimCLR"), "{table}");
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = folder.path().join("jobs.json");
    std::fs::write(&wrong, "{\"jobs\": [{\"name\": \"x\", \"step\": 5}]}").expect("written");
    let wrong = wrong.to_str().expect("a path");
    let entry = |name: &str, more: Value| {
        let path = folder.path().join(name);
        let mut job = json!({"name": "x", "step": "50ms", "batches": 100});
        job.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        std::fs::write(&path, json!({"jobs": [job]}).to_string()).expect("written");
        path.to_str().expect("a path").to_owned()
    };
    let coreless = entry("coreless", json!({"batch_cost": "1s", "machine": {"cores": 0, "used": 0}}));
    let greedy = entry("greedy", json!({"batch_cost": "1s", "machine": {"cores": 4, "used": 5}}));
    let twice = entry("twice", json!({"batch_cost": "1s", "ops": [{"cost": "1s", "bytes": 1.0}]}));
    let faster = entry("faster", json!({"batch_cost": "1s", "objective": "cost-within:0.9"}));
    let cases: [(Vec<&str>, i32, &[&str]); 17] = [
        (vec!["--job", &coreless], 1, &["a trainer's machine of 0 cores", "job: x", "hint:"]),
        (vec!["--job", &greedy], 1, &["keeps 5 of 4 cores busy", "job: x", "hint:"]),
        (vec!["--job", &twice], 1, &["what does a batch cost?", "give one of batch_cost, ops", "file:"]),
        (vec!["--job", &faster], 1, &["a cost within 0.9 times the shortest time", "hint:"]),
        (job(&["--policy", "static:1+2"]), 1, &["2 threads at the trainer are more than the 0", "hint:"]),
        (job(&["--policy", "pecan:7"]), 2, &["is no policy", "pecan"]),
        (job(&["--pecan"]), 2, &["cannot be used with"]),
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

const SPOT: [&str; 2] = ["--offer", "kind=big,price=0.11,threads=8,spot,away=20m:1h"];

#[test]
fn kinds_are_mixed_as_a_dispatcher_would_and_each_is_tried_alone() {
    let job = ["--step", "50ms", "--batch-cost", "1900ms", "--batches", "90000", "--startup", "60s"];
    let all = ["--trainer-price", "31.2", "--offer", "kind=big,price=0.38,threads=8"];
    let arguments = [&job[..], &all, &SPOT].concat();
    let text = stdout(&[&arguments[..], &["--plot"]].concat());
    let names = ["forebay, big (spot) alone ", "forebay  big (spot)  5 ", "\nbig         "];
    assert!(names.iter().all(|name| text.contains(name)), "{text}");
    let report: Value = serde_json::from_str(&stdout(&[&arguments[..], &["--json"]].concat())).expect("JSON");
    let row = |i: usize, figure: &str| report["policies"][i][figure].as_f64().expect("a number");
    let [mixed, dear, cheap] = [0, 1, 2];
    // Without spot machines it waits for none, and with them alone for as long as they are away.
    assert!(row(mixed, "time_s") > row(dear, "time_s") && row(mixed, "worker_hours") > 1.0, "{report}");
    assert!(row(cheap, "time_s") > row(mixed, "time_s") + 1800.0, "{report}");
    let workers = |i: usize| row(i, "price") - 31.2 * row(i, "time_s") / 3600.0;
    assert!(workers(mixed) < 0.75 * workers(dear), "{} {}", workers(mixed), workers(dear));
    let kinds = report["policies"][mixed]["kinds"].as_array().expect("kinds");
    assert_eq!([&kinds[0]["lost"], &kinds[1]["lost"]], [&json!(0), &json!(5)]);
}

#[test]
fn kinds_that_cannot_be_are_refused_with_what_to_write() {
    for (offer, said) in [
        ("kind=a,price=1,threads=8,comes=x", "comes=x"),
        ("kind=a,price=1,threads=8,comes=0", "how many are to be had is 0"),
        ("kind=a,price=1,threads=8,pace=0", "the pace of its threads is 0"),
        ("kind=a,price=1,threads=8,away=1h", "write FROM:TO"),
        ("kind=a,price=1,threads=8,away=1h:20m", "for how long none is to be had"),
        ("kind=a,price=1,threads=8,lasts=1s", "the time until a worker is lost"),
        ("kind=a,price=1,threads=8,startup=5s,startup=6s", "given twice"),
        ("kind=a,price=1,threads=8,colour=red", "colour=red"),
        ("kind=a,threads=8", "price"),
    ] {
        let output = sim(&job(&["--offer", offer]));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(said), "{offer}: {error}");
    }
    let twice = sim(&job(&["--offer", "kind=a,price=1,threads=8", "--offer", "kind=a,price=2,threads=8"]));
    assert!(String::from_utf8_lossy(&twice.stderr).contains("offered twice"));
    assert_eq!(sim(&job(&["--offer", "kind=a,price=1,threads=8", "--worker-price", "1"])).status.code(), Some(2));
}
