//! A decision with its reason, for programs (serialised) and for people (in words).

use std::fmt;

use serde::Serialize;

/// The ratio of taken batches to the readers' demand above which the figures are not believed.
const DELIVERED_MAX: f64 = 2.0;

/// The least rate that does not display as 0.
const SHOWN: f64 = 0.005;

/// The figures of a decision: medians over its windows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    /// Workers that there were.
    pub workers: u32,
    /// Batches a second that the trainer would take if it never waited, without those in `beside`.
    pub demand: f64,
    /// Batches a second from threads beside the trainer whose number the user has set.
    pub beside: f64,
    /// Batches a second that one worker makes.
    pub supply: f64,
    /// Seconds of one thread that a batch takes to compute.
    pub compute: f64,
    /// The share of its time in which the trainer waited, 0 to 1.
    pub waited: f64,
    /// Batches a second that the trainer took.
    pub delivered: f64,
    /// Batches a second that workers made, taken yet or not; 0 if they do not report it.
    pub made: f64,
    /// Threads that computed on the reader's machine.
    pub local: u32,
    /// Idle cores of that machine, and the share of its time in which the trainer lacked one; 0 if not reported.
    pub spare: f64,
    /// See `spare`.
    pub pressure: f64,
    /// Seconds of a core for a byte from workers, on their side and on the reader's; 0 if nothing is placed, or all
    /// chunks are lent and none is sent.
    pub send: f64,
    /// See `send`.
    pub receive: f64,
}

impl Figures {
    /// Returns the number of workers that the demand keeps busy all the time.
    pub(crate) fn load(&self) -> f64 {
        self.demand / self.supply
    }

    /// Returns whether the figures contradict each other.
    pub(crate) fn contradict(&self) -> bool {
        let positive = |x: f64| x.is_finite() && x > 0.0;
        let some = positive(self.demand) && positive(self.supply) && positive(self.compute);
        let delivered = self.delivered.is_finite() && (0.0..=DELIVERED_MAX * self.demand).contains(&self.delivered);
        let made = self.made.is_finite() && self.made >= 0.0;
        !(some && delivered && made && (0.0..=1.0).contains(&self.waited))
    }
}

/// Why a decision has no figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Gap {
    /// The trainer took nothing, and did not wait.
    Idle,
    /// The trainer waits, and no batch has come yet.
    NothingYet,
    /// No worker has reported the cost of a batch.
    NotComputed,
    /// There is no worker.
    NoWorkers,
    /// A figure is invalid, or two contradict each other.
    Contradiction,
}

/// Why a number of workers is wanted. Numbers beside the [`Figures`] are the limits that the rule compared with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum Reason {
    /// There are too few windows yet.
    Measuring {
        /// Windows seen so far.
        windows: usize,
        /// Windows needed.
        needed: usize,
    },
    /// There are no figures to decide on: the present number stays.
    NoFigures {
        /// The missing figure.
        gap: Gap,
    },
    /// Workers are still coming or going.
    Settling {
        /// The requested workers.
        wanted: u32,
    },
    /// The number that demand and supply require.
    Demand {
        /// The share added to the demand.
        margin: f64,
    },
    /// No allowed placement costs less, for an objective with a price.
    Cheapest,
    /// The load has changed since the number was found.
    Changed {
        /// The load then, in workers.
        before: f64,
        /// The load now, in workers.
        now: f64,
    },
    /// The trainer waits: the policy wants one more worker, or several.
    Waits {
        /// The share of its time for which it may wait.
        at_most: f64,
    },
    /// The load is smaller than before: fewer workers are enough.
    Fewer {
        /// The load over a longer time, in workers.
        load: f64,
    },
    /// The number is right.
    Enough {
        /// The share of its time for which the trainer may wait.
        at_most: f64,
    },
    /// The trainer lacks cores, or wants cores that threads on its machine use: they give them back.
    Yields {
        /// Idle cores.
        spare: f64,
        /// The share of its time in which the trainer lacked a core.
        pressure: f64,
    },
    /// Cores of the trainer's machine have become free.
    Spare {
        /// How many there are now.
        cores: f64,
    },
    /// Another placement is cheaper.
    Price {
        /// The share of the price that it saves.
        saved: f64,
    },
    /// More workers bring no more: a shared bottleneck holds them up.
    Shared {
        /// The number of workers that bring as much.
        useful: u32,
    },
    /// Workers make at least the batches that the trainer takes; it waits for the next split in its order, and then has
    /// the rest ahead of it.
    Ahead {
        /// Batches a second that they make.
        made: f64,
    },
    /// The trainer still waits after the last allowed probe.
    Unmet {
        /// The number of allowed probes.
        probes: u32,
    },
    /// The job needs more workers than allowed.
    AtMost {
        /// The workers needed.
        needed: u32,
        /// The workers allowed.
        limit: u32,
    },
    /// The number was right for an earlier job on the same samples.
    Again,
    /// Figures of earlier jobs on the same samples, of the trainer and of ops, predict the number; this job has no
    /// measurement yet.
    Known,
    /// The number that the user set.
    Fixed,
    /// Another policy's rule (see its module), with its figure.
    Rule {
        /// The name of the policy.
        policy: &'static str,
        /// The finding of the rule.
        found: &'static str,
        /// The figure that the rule compared.
        figure: f64,
    },
}

/// How many workers are wanted, and the reason.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Decision {
    /// Workers in processes of their own.
    pub workers: u32,
    /// Threads on the reader's own machine.
    pub local: u32,
    /// Ops that run on the workers, the others at the reader; `None` keeps the present cut.
    pub cut: Option<u32>,
    /// The reason.
    #[serde(flatten)]
    pub reason: Reason,
    /// The figures behind it; `None` if nothing was measured.
    pub figures: Option<Figures>,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "the trainer asks for nothing",
            Self::NothingYet => "no batch has come yet",
            Self::NotComputed => "no worker has said yet what a batch costs",
            Self::NoWorkers => "no worker is there",
            Self::Contradiction => "the figures contradict each other",
        })
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (workers, stay) = (Placed(self), self.verb("stays", "stay"));
        let Some(figures) = self.figures else {
            return match self.reason {
                Reason::NoFigures { gap } => write!(f, "{workers} {stay}: {gap}"),
                Reason::Measuring { windows, needed } => {
                    write!(f, "{workers} while measuring: {windows} of {needed} windows")
                }
                Reason::Fixed => write!(f, "{workers}, as was set"),
                Reason::Again => write!(f, "{workers} to begin with, as was right for these samples before"),
                Reason::Rule { policy, found, figure } => write!(f, "{workers}: {policy} finds {found} ({figure:.2})"),
                _ => write!(f, "{workers}"),
            };
        };
        let Figures { workers: had, supply, waited, delivered, .. } = figures;
        let (waits, had, takes) = (Percent(waited), Workers(had), Takes(figures));
        match self.reason {
            Reason::Measuring { windows, needed } => {
                write!(f, "{workers} while measuring: {windows} of {needed} windows")
            }
            Reason::NoFigures { gap } => write!(f, "{workers} {stay}: {gap}"),
            Reason::Settling { wanted } => {
                let (were, are) = (verb(wanted, "was", "were"), verb(figures.workers, "is", "are"));
                write!(f, "{} {were} asked for, and {had} {are} there", Workers(wanted))
            }
            Reason::Demand { margin } => write!(
                f,
                "{workers}: the trainer takes {takes} when it never waits, one worker makes {supply:.2}; {} are added",
                Percent(margin)
            ),
            Reason::Cheapest => write!(
                f,
                "{workers} {} the cheapest: the trainer takes {takes} when it never waits, one worker makes {supply:.2}; with \
                 {had} it waits {waits} of its time",
                self.verb("is", "are")
            ),
            Reason::Changed { before, now } => write!(
                f,
                "{workers}: what took {before:.2} workers takes {now:.2} now; the trainer takes {takes}, one worker makes \
                 {supply:.2}"
            ),
            Reason::Waits { at_most } => {
                write!(f, "{workers}: with {had} the trainer waits {waits} of its time, more than {}", Percent(at_most))
            }
            Reason::Fewer { load } => {
                write!(f, "{workers} will do: there is work for {load:.2} of {had}")
            }
            Reason::Enough { at_most } => {
                let are = self.verb("is", "are");
                write!(
                    f,
                    "{workers} {are} right: the trainer waits {waits} of its time, no more than {}",
                    Percent(at_most)
                )
            }
            Reason::Yields { spare, pressure } => write!(
                f,
                "{workers}: {spare:.1} cores of the trainer's machine are spare, and it misses one for {} of its time",
                Percent(pressure)
            ),
            Reason::Spare { cores } => {
                write!(f, "{workers}: {cores:.1} cores of the trainer's machine have become spare")
            }
            Reason::Price { saved } => write!(f, "{workers}: a batch is {} cheaper", Percent(saved)),
            Reason::Shared { useful } => write!(
                f,
                "{workers}: {had} {} {delivered:.2} batches/s, as much as {useful} would alone; something that they share \
                 holds them up",
                verb(figures.workers, "brings", "bring")
            ),
            Reason::Ahead { made } => write!(
                f,
                "{workers} {stay}: {had} {} {made:.2} batches/s, and the trainer takes {takes}; it waits {waits} of its time for \
                 what is next in its order, and the rest is ahead of it",
                verb(figures.workers, "makes", "make")
            ),
            Reason::Unmet { probes } => write!(
                f,
                "{workers} {stay}: the trainer waits {waits} of its time, and {probes} probes are as many as there may be"
            ),
            Reason::AtMost { needed, limit } => write!(
                f,
                "{workers}: {needed} are needed for {takes}, and there may be {limit}; the trainer waits {waits} of its time"
            ),
            Reason::Again => write!(f, "{workers}, as was right for these samples before"),
            Reason::Known => write!(
                f,
                "{workers} to begin with: with these samples a trainer took {takes} when it never waited, and one worker made \
                 {supply:.2}"
            ),
            Reason::Fixed => write!(f, "{workers}, as was set"),
            Reason::Rule { policy, found, figure } => write!(f, "{workers}: {policy} finds {found} ({figure:.2})"),
        }
    }
}

impl Decision {
    /// Returns whether another decision has the same placement and the same kind of reason, with any figures.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let same_reason = match (self.reason, other.reason) {
            (Reason::NoFigures { gap: one }, Reason::NoFigures { gap: other }) => one == other,
            (Reason::Rule { found: one, .. }, Reason::Rule { found: other, .. }) => one == other,
            (one, other) => std::mem::discriminant(&one) == std::mem::discriminant(&other),
        };
        (self.workers, self.local, self.cut) == (other.workers, other.local, other.cut) && same_reason
    }
}

impl Decision {
    /// Returns the verb form for the number of workers and threads.
    fn verb(&self, one: &'static str, many: &'static str) -> &'static str {
        verb(self.workers.saturating_add(self.local), one, many)
    }
}

fn verb(count: u32, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

/// The demand of a trainer, in words.
struct Takes(Figures);

impl fmt::Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { demand, beside, .. } = self.0;
        write!(f, "{demand:.2} batches/s")?;
        if beside < SHOWN { Ok(()) } else { write!(f, " besides the {beside:.2} that its own threads make,") }
    }
}

/// The wanted placement, in words.
struct Placed<'a>(&'a Decision);

impl fmt::Display for Placed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Decision { workers, local, cut, .. } = *self.0;
        write!(f, "{}", Workers(workers))?;
        if local > 0 {
            let plural = if local == 1 { "" } else { "s" };
            write!(f, " and {local} thread{plural} at the trainer")?;
        }
        let Some(cut) = cut.filter(|_| local > 0) else { return Ok(()) };
        write!(f, ", cut after op {cut}")
    }
}

struct Workers(u32);

impl fmt::Display for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0 == 1 { "" } else { "s" };
        write!(f, "{} worker{plural}", self.0)
    }
}

/// A share, as a percentage for people.
struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} %", 100.0 * self.0)
    }
}
