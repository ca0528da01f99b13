//! Kernels on the numbers of columns.

pub(super) mod arithmetic;
pub(super) mod convert;
pub(super) mod kernel;
pub(super) mod lists;
pub(super) mod math;
pub(super) mod number;
pub(super) mod shape;
