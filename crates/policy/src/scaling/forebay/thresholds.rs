//! The thresholds of the policy: shares, factors, and numbers of windows.

/// The share added to the demand before solving.
pub const MARGIN: f64 = 0.01;
/// The share of its time for which a trainer may wait with a right placement.
pub const WAIT_MAX: f64 = 0.02;
/// The share of waits from which a confirmed placement is no longer right.
pub const WAIT_AGAIN: f64 = 0.05;
/// The share of waits from which workers cannot keep up, so that the delivered rate is theirs.
pub const SATURATED: f64 = 0.10;
/// The most changes after the first one at the same load.
pub const PROBES_MAX: u32 = 3;
/// The factor, up or down, from which a load is another load, and from which more spare cores are worth another look.
pub const CHANGE: f64 = 1.6;
/// The share of its time in which a trainer may lack a core before threads on its machine give theirs back.
pub const PRESSURE_MAX: f64 = 0.10;
/// The share of their requested cores below which threads give some back. Figures that are off by a fifth, once too
/// high and once too low, stay above it.
pub const YIELD: f64 = 0.6;
/// The share of the limits of wire and threads from which these may be full, so that the workers need not be slow.
pub(super) const FULL: f64 = 0.95;
/// The ratio of made to received batches from which workers are ahead of a reader that waits for the next split in its
/// order. Figures that are off by a fifth, over a few windows, stay below it.
pub(super) const AHEAD: f64 = 1.25;
/// Less of a core than this counts as none.
pub(super) const NO_CORE: f64 = 0.1;
/// The share of the trainer's own speed below which threads on its machine are considered to slow it down.
pub(super) const SUFFERS: f64 = 0.75;
/// The share of the reader's work at another cut below which that cut counts as lighter: figures that are off by some
/// percent move the cut once at most.
pub(super) const LIGHTER: f64 = 0.8;
/// The share of the price that another placement must save to be tried.
pub(super) const CHEAPER: f64 = 0.02;
/// The same as [`CHANGE`], while the earlier load is known from few windows.
pub(super) const CHANGE_EARLY: f64 = 2.2;
/// The factor by which the load, over many windows, must be below that of the placement before less is enough.
pub(super) const SLACK: f64 = 1.2;
/// The share of a unit's threads that may be of other types before it is another unit.
pub(super) const OTHER_UNIT: f64 = 0.1;
/// The share of the expected gain below which more workers do not help.
pub(super) const USEFUL: f64 = 0.5;
/// The bounds of the share of a worker's computing time that reaches the trainer.
pub(super) const EFFICIENCY: (f64, f64) = (0.2, 1.25);
/// Windows from which a placement is found or confirmed, from which a change is noticed, and that are stored.
pub(super) const FEW: usize = 3;
pub(super) const SOME: usize = 5;
pub(super) const MANY: usize = 15;
