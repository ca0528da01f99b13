//! The version of the stored format.

/// The version of the stored format. Blocks of another version are left alone; keys of another version differ.
pub const FORMAT: u32 = 1;
