//! Walks an archive from header to header, without reading payloads.

use forebay_core::{Error, Result};

use super::header::{BLOCK, Override, STEP, find_header, long_name, name_of, number, pax, sum_is_right};
use super::split_name;
use crate::fail;
use crate::index::table::Span;
use crate::store::Forward;

/// The longest PAX header or GNU long name that is read.
const HEADER_BYTES_MAX: u64 = 1 << 20;

/// One regular file of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) span: Span,
    /// Where its headers begin.
    pub(crate) header: u64,
    /// Where the header of the previous entry is; 0 for the first one.
    pub(super) before: u64,
}

/// Walks an archive.
#[derive(Debug)]
pub(crate) struct Walk {
    pub(crate) forward: Forward,
    pub(super) at: u64,
    /// Where the header of the last passed entry is.
    before: u64,
    /// Where the last passed payload begins.
    pub(super) payload: u64,
    /// From this offset on, no payload may hold bytes that look like a header.
    pub(super) check_from: Option<u64>,
}

/// The next entry of an archive.
pub(super) enum Entry {
    File(Member),
    /// A folder, a link, a device, or a file whose name is not read.
    Other,
    End,
}

impl Walk {
    /// Begins at a member's headers, or at the start of the file.
    pub(crate) fn new(forward: Forward, at: u64) -> Self {
        Self { forward, at, before: 0, payload: at, check_from: None }
    }

    /// Returns the next regular file, or `None` at the end of the archive.
    ///
    /// # Errors
    /// Data when a header is broken or the file ends within a member, with file, offset and member.
    pub(crate) fn next(&mut self) -> Result<Option<Member>> {
        loop {
            match self.entry(true)? {
                Entry::File(member) => return Ok(Some(member)),
                Entry::Other => {}
                Entry::End => return Ok(None),
            }
        }
    }

    /// Checks that a reader that starts in the middle of the archive finds the same headers as the walk, from `offset`
    /// on.
    fn check_payload(&mut self) -> Result<()> {
        let Some(from) = self.check_from.map(|from| from.max(self.payload)).filter(|from| *from < self.at) else {
            return Ok(());
        };
        match find_header(&mut self.forward, from, self.at)? {
            Some(offset) => Err(fail::ambiguous(
                self.forward.object().uri(),
                offset,
                "a row holds what looks like an archive's header",
            )),
            None => Ok(()),
        }
    }

    /// Passes one entry. Its name is read only if it `is_named`: a part of it may be in a header that was not read.
    pub(super) fn entry(&mut self, is_named: bool) -> Result<Entry> {
        let mut ahead = Override::default();
        let first = self.at;
        loop {
            self.check_payload()?;
            let at = self.at;
            let object = self.forward.object();
            let uri = object.uri();
            let cut = |what: &str| fail::truncated(uri, what).with("offset", at);
            // The size of a compressed file is known only after its end was read.
            let is_over = self.forward.at(at, BLOCK as usize)?.is_empty();
            let size_max = self.forward.size().unwrap_or(i64::MAX as u64);
            if is_over && at > size_max {
                return Err(cut("the archive ends within a member, or its padding"));
            }
            let header = match self.forward.at(at, BLOCK as usize)? {
                [] => None,
                block => {
                    let whole = <[u8; 512]>::try_from(block);
                    Some(whole.map_err(|_| cut("the archive ends within a header"))?)
                }
            };
            let Some(header) = header.filter(|header| header.iter().any(|&b| b != 0)) else {
                if at > first {
                    return Err(cut("the archive ends behind an extended header, before its member"));
                }
                self.check_rest()?;
                return Ok(Entry::End);
            };
            let broken = |what: &str| {
                fail::corrupt(uri, at, format!("broken tar header: {what}"))
                    .hint("the archive is truncated or corrupt: write or fetch it again")
            };
            if !sum_is_right(&header) {
                return Err(broken("its checksum differs"));
            }
            let kind = header[156];
            let mut size = number(&header[124..136]).ok_or_else(|| broken("its size is not a number"))?;
            let extended = matches!(kind, b'x' | b'g' | b'L' | b'K');
            if let Some(real) = ahead.size.filter(|_| !extended) {
                if real != size && self.check_from.is_some_and(|from| from <= at) {
                    // A reader that begins between the two headers does not know the size.
                    return Err(fail::ambiguous(uri, at, "the size of a member is in its extended header alone"));
                }
                size = real;
            }
            if matches!(kind, b'1'..=b'6') {
                size = 0;
            }
            let name = || ahead.name.clone().unwrap_or_else(|| name_of(&header));
            let data = at + BLOCK;
            if data.checked_add(size).is_none_or(|end| end > size_max) {
                return Err(fail::truncated(uri, "the archive ends within a member")
                    .with("offset", at)
                    .with("member", String::from_utf8_lossy(&name())));
            }
            self.at = data + size.div_ceil(BLOCK) * BLOCK;
            self.payload = data;
            if extended {
                if kind == b'x' || kind == b'L' {
                    if size > HEADER_BYTES_MAX {
                        return Err(broken("an extended header of more than 1 MiB"));
                    }
                    let bytes = self.forward.at(data, size as usize)?;
                    let read = if kind == b'L' { long_name(bytes, &mut ahead) } else { pax(bytes, &mut ahead) };
                    read.ok_or_else(|| broken("its extended header cannot be read"))?;
                }
                continue;
            }
            if kind == b'S' {
                return Err(
                    broken("a sparse file, which is not supported").with("member", String::from_utf8_lossy(&name()))
                );
            }
            let before = std::mem::replace(&mut self.before, at);
            if is_named && matches!(kind, b'0' | 0 | b'7') {
                let name = match String::from_utf8(name()) {
                    Ok(name) => name,
                    Err(e) if split_name(&String::from_utf8_lossy(e.as_bytes())).is_none() => String::new(),
                    Err(e) => return Err(not_utf8(uri, first, e.as_bytes())),
                };
                if !name.ends_with('/') {
                    let span = Span { offset: data, len: size };
                    return Ok(Entry::File(Member { name, span, header: first, before }));
                }
            }
            return Ok(Entry::Other);
        }
    }

    /// Refuses an archive with other bytes than zeros after its end: they may be a second archive, or remains of an
    /// overwritten one.
    fn check_rest(&mut self) -> Result<()> {
        let mut at = self.at;
        loop {
            let rest = self.forward.at(at, STEP)?;
            if rest.is_empty() {
                return Ok(());
            }
            if let Some(i) = rest.iter().position(|&b| b != 0) {
                let object = self.forward.object();
                return Err(fail::corrupt(object.uri(), at + i as u64, "there is more behind the end of the archive")
                    .with("fault", "file")
                    .hint(
                        "if archives were put one behind another, keep each as a file of its own, or join them with \
                         `tar --concatenate`; if not, cut the file off here or write it again",
                    ));
            }
            at += rest.len() as u64;
        }
    }
}

/// Returns the error of a member whose name is not UTF-8, so that it has neither key nor extension.
fn not_utf8(uri: &str, offset: u64, name: &[u8]) -> Error {
    fail::corrupt(uri, offset, "an archive's member has a name that is not utf-8")
        .with("fault", "file")
        .with("member", name.escape_ascii())
        .hint(
            "rename the member, or write the archive again with names in utf-8: tarfile.open(..., encoding=\"utf-8\")",
        )
}
