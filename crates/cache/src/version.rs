//! The version of what is stored.

/// The version of the stored format. Blocks of another version are left alone; keys of another version differ.
pub const FORMAT: u32 = 1;
