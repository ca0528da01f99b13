//! Commands that measure and check Forebay on this machine.

pub(crate) mod bench;
pub(crate) mod demo;
pub(crate) mod selftest;
pub(crate) mod sim;
