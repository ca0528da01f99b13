//! Detects the first request of an HTTP/2 connection: its preface, and the head of a HEADERS frame.

/// The length of the first bytes of a connection: `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n`.
const PREFACE_BYTES: usize = 24;
/// The length of a frame's head: three bytes of length, its type, flags, and its stream.
const HEAD_BYTES: usize = 9;
/// The type of a frame with which a request begins.
const HEADERS: u8 = 1;

/// Scans the bytes of a connection; keeps at most one frame head.
#[derive(Debug)]
pub(super) struct FirstRequest {
    /// Bytes to skip: of the preface, or of a frame's body.
    skip: usize,
    head: [u8; HEAD_BYTES],
    /// Bytes of the head so far.
    have: usize,
}

impl FirstRequest {
    pub(super) fn new() -> Self {
        Self { skip: PREFACE_BYTES, head: [0; HEAD_BYTES], have: 0 }
    }

    /// Scans the next bytes. Returns whether a request has begun.
    pub(super) fn scan(&mut self, mut bytes: &[u8]) -> bool {
        loop {
            let skipped = self.skip.min(bytes.len());
            (self.skip, bytes) = (self.skip - skipped, &bytes[skipped..]);
            if bytes.is_empty() {
                return false;
            }
            let more = (HEAD_BYTES - self.have).min(bytes.len());
            self.head[self.have..self.have + more].copy_from_slice(&bytes[..more]);
            (self.have, bytes) = (self.have + more, &bytes[more..]);
            if self.have == HEAD_BYTES {
                if self.head[3] == HEADERS {
                    return true;
                }
                let length = [0, self.head[0], self.head[1], self.head[2]];
                (self.skip, self.have) = (u32::from_be_bytes(length) as usize, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_begins_with_its_head_however_the_bytes_come() {
        let settings = [&[0, 0, 6, 4, 0, 0, 0, 0, 0][..], &[1; 6]].concat();
        let ping = [&[0, 0, 8, 6, 0, 0, 0, 0, 0][..], &[1; 8]].concat();
        let before = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &settings[..], &ping[..]].concat();
        let whole = [&before[..], &[0, 0, 1, 1, 4, 0, 0, 0, 1, 0]].concat();
        for piece in 1..=whole.len() {
            let mut begin = FirstRequest::new();
            let mut seen = 0;
            let begins = whole.chunks(piece).find(|chunk| {
                seen += chunk.len();
                begin.scan(chunk)
            });
            assert!(begins.is_some() && seen >= before.len() + HEAD_BYTES, "in pieces of {piece}");
            assert!(!FirstRequest::new().scan(&before), "pings are no request");
        }
    }
}
