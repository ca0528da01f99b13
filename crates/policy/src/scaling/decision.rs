//! A decision with its reason, for programs (serialised) and for people (in words).

use std::fmt;

use serde::Serialize;

/// What readers can have taken, relative to what they would take at most, before the figures are not believed.
const DELIVERED_MAX: f64 = 2.0;

/// The least that does not look like nothing.
const SHOWN: f64 = 0.005;

/// What a decision was taken on: medians over the windows that it looked at.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    /// Workers that there were.
    pub workers: u32,
    /// Batches a second that the trainer would take if it never waited, without those beside.
    pub demand: f64,
    /// Batches a second that threads beside the trainer made whose number is set.
    pub beside: f64,
    /// Batches a second that one worker makes.
    pub supply: f64,
    /// Seconds of one thread that a batch takes to compute.
    pub compute: f64,
    /// The share of its time that the trainer waited, 0 to 1.
    pub waited: f64,
    /// Batches a second that it took.
    pub delivered: f64,
    /// Batches a second that workers made, taken yet or not; 0 where they do not say.
    pub made: f64,
    /// Threads on the reader's machine that there were.
    pub local: u32,
    /// Cores of that machine that nobody else wanted, and the share of its time that the trainer had none; 0 where it does not
    /// say.
    pub spare: f64,
    /// See `spare`.
    pub pressure: f64,
    /// Seconds of a core for a byte of what comes from workers, at them and at the reader's machine; 0 where nothing is placed, or all is
    /// lent and none is sent.
    pub send: f64,
    /// See `send`.
    pub receive: f64,
}

impl Figures {
    /// Returns how many workers would compute all the time.
    pub(crate) fn load(&self) -> f64 {
        self.demand / self.supply
    }

    /// Says whether they cannot all be right.
    pub(crate) fn contradict(&self) -> bool {
        let positive = |x: f64| x.is_finite() && x > 0.0;
        let some = positive(self.demand) && positive(self.supply) && positive(self.compute);
        let delivered = self.delivered.is_finite() && (0.0..=DELIVERED_MAX * self.demand).contains(&self.delivered);
        let made = self.made.is_finite() && self.made >= 0.0;
        !(some && delivered && made && (0.0..=1.0).contains(&self.waited))
    }
}

/// Why there are no figures to decide on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Gap {
    /// The trainer took nothing, and waited for nothing.
    Idle,
    /// No batch has come yet that it waits for.
    NothingYet,
    /// No worker has said what a batch costs.
    NotComputed,
    /// There is no worker.
    NoWorkers,
    /// A figure is none, or two cannot both be right.
    Contradiction,
}

/// Why a number of workers is wanted. Numbers beyond the [`Figures`] are those that the rule compared with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum Reason {
    /// There are too few windows yet.
    Measuring {
        /// Windows that were looked at.
        windows: usize,
        /// Windows that it takes.
        needed: usize,
    },
    /// There is nothing to decide on: what there is stays.
    NoFigures {
        /// What is missing.
        gap: Gap,
    },
    /// Workers are still coming or going.
    Settling {
        /// What was asked for.
        wanted: u32,
    },
    /// As many as demand and supply say.
    Demand {
        /// What is added to the demand.
        margin: f64,
    },
    /// Nothing that may be costs less: where a price is to be made small.
    Cheapest,
    /// The load has changed since the number was found.
    Changed {
        /// Workers' worth of work, then.
        before: f64,
        /// And now.
        now: f64,
    },
    /// The trainer waits: one more, or more.
    Waits {
        /// The share of its time that it may.
        at_most: f64,
    },
    /// Less is to be done than before: fewer would do.
    Fewer {
        /// Workers' worth of work, over a longer time.
        load: f64,
    },
    /// It is right as it is.
    Enough {
        /// The share of its time that the trainer may wait.
        at_most: f64,
    },
    /// The trainer misses cores, or wants those that threads on its machine had: they give them back.
    Yields {
        /// Cores that nobody else wanted.
        spare: f64,
        /// The share of its time that the trainer had none.
        pressure: f64,
    },
    /// Cores of the trainer's machine have become free.
    Spare {
        /// How many there are now.
        cores: f64,
    },
    /// Another placement is cheaper.
    Price {
        /// By this share of the price.
        saved: f64,
    },
    /// More workers bring no more: something that they share holds them up.
    Shared {
        /// How many bring as much as there were.
        useful: u32,
    },
    /// Workers make what the trainer takes, and more; it waits for what is next in its order, and has the rest ahead of it then.
    Ahead {
        /// Batches a second that they make.
        made: f64,
    },
    /// It still waits after as many probes as there may be.
    Unmet {
        /// How many there may be.
        probes: u32,
    },
    /// More are needed than there may be.
    AtMost {
        /// Workers that would be needed.
        needed: u32,
        /// Workers that there may be.
        limit: u32,
    },
    /// What was right for an earlier job on the same samples.
    Again,
    /// What earlier jobs on the same samples showed of the trainer and of their ops says so; nothing of this one is measured yet.
    Known,
    /// The number that was set.
    Fixed,
    /// Another policy's rule (see its module), with what it compared.
    Rule {
        /// Whose.
        policy: &'static str,
        /// What it found.
        found: &'static str,
        /// The figure that it compared.
        figure: f64,
    },
}

/// How many workers are wanted, and why.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Decision {
    /// Workers in processes of their own.
    pub workers: u32,
    /// Threads on the reader's own machine.
    pub local: u32,
    /// Ops that run on the workers, the others at the reader; `None` is where the pipeline is cut anyway.
    pub cut: Option<u32>,
    /// Why.
    #[serde(flatten)]
    pub reason: Reason,
    /// On what; `None` where nothing was measured.
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
    /// Says whether another decision has the same number for the same kind of reason, whatever the figures.
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
    /// Returns the verb that goes with what is wanted.
    fn verb(&self, one: &'static str, many: &'static str) -> &'static str {
        verb(self.workers.saturating_add(self.local), one, many)
    }
}

fn verb(count: u32, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

/// What a trainer takes, in words.
struct Takes(Figures);

impl fmt::Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { demand, beside, .. } = self.0;
        write!(f, "{demand:.2} batches/s")?;
        if beside < SHOWN { Ok(()) } else { write!(f, " besides the {beside:.2} that its own threads make,") }
    }
}

/// What is wanted, in words.
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

/// A share of 1, for people.
struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} %", 100.0 * self.0)
    }
}
