//! The format of an encoded sound, by its first bytes.
//!
//! The crate that decodes would look for a frame of MP3 anywhere in the first megabyte of any bytes, and find one in
//! noise. So bytes that begin like no known format are refused before it sees them.

use forebay_core::{Error, Result};

/// A format of sound files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Container {
    Wav,
    Aiff,
    Flac,
    Ogg,
    Mp4,
    /// MP3, or AAC without a container.
    Frames,
}

impl Container {
    /// Finds the format.
    ///
    /// # Errors
    /// Data when the bytes are no sound, or a format that is not decoded.
    pub(super) fn of(bytes: &[u8]) -> Result<Self> {
        const FORMATS: &str = "WAV, AIFF, FLAC, Ogg Vorbis, MP3, AAC (ADTS and M4A)";
        let at = |from: usize, want: &[u8]| bytes.get(from..from + want.len()) == Some(want);
        if bytes.is_empty() {
            return Err(Error::data("the sound is empty: 0 bytes").hint("leave such rows out with filter"));
        }
        if bytes.len() > 28 && at(0, b"OggS") && bytes.windows(8).take(64).any(|window| window == b"OpusHead") {
            return Err(Error::data("the sound is Ogg Opus, which is not decoded")
                .hint(format!("convert it, or decode it by map with a library of yours; decoded are {FORMATS}")));
        }
        let found = [
            (at(0, b"RIFF") && at(8, b"WAVE"), Self::Wav),
            (at(0, b"FORM") && (at(8, b"AIFF") || at(8, b"AIFC")), Self::Aiff),
            (at(0, b"fLaC"), Self::Flac),
            (at(0, b"OggS"), Self::Ogg),
            (at(4, b"ftyp"), Self::Mp4),
            (at(0, b"ID3"), Self::Frames),
            (bytes[0] == 0xff && bytes.get(1).is_some_and(|second| second & 0xe0 == 0xe0), Self::Frames),
        ];
        let found = found.into_iter().find_map(|(is, container)| is.then_some(container));
        found.ok_or_else(|| {
            let first: String = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            Error::data(format!("the bytes are no sound of a known format: they begin with {first}"))
                .hint(format!("decoded are {FORMATS}"))
        })
    }

    /// Whether its header states the exact number of samples, so that a file with fewer is cut off.
    pub(super) fn counts_exactly(self) -> bool {
        matches!(self, Self::Wav | Self::Aiff | Self::Flac)
    }
}
