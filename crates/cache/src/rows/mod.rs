//! Looks up rows of prefixes, claims the missing ones, and keeps computed rows.
//!
//! | module | |
//! |---|---|
//! | `prefix` | a lookup: the rows that are found, that the caller computes, and that others compute |
//! | `claim`, `claimed` | rows that a caller computes, and its wait for rows that others compute |
//! | `in_flight` | rows that are being computed, and that others wait for (single flight) |
//! | `answer`, `found` | the rows of one lookup, until their columns are copied together |
//! | `index`, `number` | where each row of a prefix is, by the number that this process gives it |
//! | `segment`, `table` | rows in memory that came together; rows as plain buffers |
//! | `admit` | which computed rows are kept in memory, and which are sent to the tiers below |
//! | `tier_read` | reads the rows of one lookup from a tier below memory, and checks their sums |
//!
//! All this is the same for every tier, so it is not part of the trait (`tiers::tier`): a row is in flight or claimed
//! before any tier has it, and the choice of the rows that memory keeps depends on the tiers below.

pub(crate) mod admit;
pub(crate) mod answer;
pub(crate) mod claim;
pub(crate) mod claimed;
pub(crate) mod found;
pub(crate) mod in_flight;
pub(crate) mod index;
pub(crate) mod number;
pub(crate) mod prefix;
pub(crate) mod segment;
pub(crate) mod table;
pub(crate) mod tier_read;
