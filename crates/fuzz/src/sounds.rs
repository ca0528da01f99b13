//! Encoded sounds. The same bytes have the same samples, or the same error, after any sound that was decoded before.

use forebay_exec::audio::{Bounds, Sound, decode};

/// A sound of a second, so that no input is slow because it is long.
const BOUNDS: Bounds = Bounds { max_seconds: 1.0 };

/// All bytes are the sound.
pub(crate) fn audio(data: &[u8]) {
    let bits = |sound: Sound| sound.samples.into_iter().map(f32::to_bits).collect::<Vec<_>>();
    let (first, again) = (decode(data, BOUNDS).map(bits), decode(data, BOUNDS).map(bits));
    assert!(first == again, "a sound depends on those before it");
    if let Err(error) = first {
        assert!(!error.message().contains("panicked"), "{error}");
    }
}
