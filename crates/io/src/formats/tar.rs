//! Tar archives (ustar, GNU, PAX) with WebDataset naming, walked header by header without reading payloads.
//!
//! A member's key is its path up to the first dot of the last component, its extension the rest, both as they are
//! written; members of one key that follow each other are one sample. Folders, links, devices and names without a dot
//! or beginning with one are passed over, as the webdataset library does.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use forebay_core::{Error, Result};

use super::compressed;
use crate::index::table::{Span, TarTable};
use crate::store::{Forward, Object};
use crate::{fail, limits};

const BLOCK: u64 = 512;
/// The longest PAX header or GNU long name that is read.
const HEADER_BYTES_MAX: u64 = 1 << 20;

/// How much is looked at in one go behind the end of an archive.
const REST_STEP: usize = 64 << 10;

/// One regular file of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) span: Span,
    /// Where its headers begin.
    pub(crate) header: u64,
    /// Where the header is of the entry before it; 0 for the first one.
    before: u64,
}

/// What PAX and GNU headers say of the next member.
#[derive(Debug, Default)]
struct Override {
    name: Option<Vec<u8>>,
    size: Option<u64>,
}

/// Walks an archive.
#[derive(Debug)]
pub(crate) struct Walk {
    pub(crate) forward: Forward,
    at: u64,
    /// Where the header is of the entry that was passed last.
    before: u64,
    /// Where the payload begins that was passed last.
    payload: u64,
    /// No payload behind this may hold what looks like a header.
    check_from: Option<u64>,
}

/// What is next in an archive.
enum Entry {
    File(Member),
    /// A folder, a link, a device, or a file with a name that is not looked at.
    Other,
    End,
}

impl Walk {
    /// Begins at a member's headers, or where the file does.
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

    /// Checks that a reader finds the same headers in the middle of the archive as the walk does, from `offset` on.
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

    /// Passes one entry. Its name is not looked at unless it `is_named`: a part of it may be in a header that was not read.
    fn entry(&mut self, is_named: bool) -> Result<Entry> {
        let mut ahead = Override::default();
        let first = self.at;
        loop {
            self.check_payload()?;
            let at = self.at;
            let object = self.forward.object();
            let uri = object.uri();
            let cut = |what: &str| fail::truncated(uri, what).with("offset", at);
            // Of a compressed file the size is known once its end was read.
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
                    // A reader that begins between the two headers does not know.
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

    /// Refuses an archive with anything but zeros behind its end: it may be a second archive, or what was written over.
    fn check_rest(&mut self) -> Result<()> {
        let mut at = self.at;
        loop {
            let rest = self.forward.at(at, REST_STEP)?;
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

/// A member of a sample whose name is no text, so that it gives neither a key nor an extension.
fn not_utf8(uri: &str, offset: u64, name: &[u8]) -> Error {
    fail::corrupt(uri, offset, "an archive's member has a name that is not utf-8")
        .with("fault", "file")
        .with("member", name.escape_ascii())
        .hint(
            "rename the member, or write the archive again with names in utf-8: tarfile.open(..., encoding=\"utf-8\")",
        )
}

/// Returns where the first block from `from` on, and before `end`, is that has a header's checksum.
fn find_header(forward: &mut Forward, from: u64, end: u64) -> Result<Option<u64>> {
    let mut at = from.next_multiple_of(BLOCK);
    while at < end {
        let len = (end - at).next_multiple_of(BLOCK).min(REST_STEP as u64) as usize;
        let blocks = forward.at(at, len)?.as_chunks::<512>().0;
        if let Some(found) = blocks.iter().position(sum_is_right) {
            return Ok(Some(at + found as u64 * BLOCK));
        }
        if blocks.is_empty() {
            break;
        }
        at += blocks.len() as u64 * BLOCK;
    }
    Ok(None)
}

/// The sum of the bytes, taking the sum's own field as spaces; old writers summed signed bytes. An empty field is no sum: the padded end of
/// a payload has one.
fn sum_is_right(header: &[u8; 512]) -> bool {
    if header[148..156].iter().all(|&b| b == 0 || b == b' ') {
        return false;
    }
    let Some(want) = number(&header[148..156]) else { return false };
    let byte = |i: usize| if (148..156).contains(&i) { b' ' } else { header[i] };
    let unsigned: u64 = (0..512).map(|i| u64::from(byte(i))).sum();
    let signed: i64 = (0..512).map(|i| i64::from(byte(i) as i8)).sum();
    want == unsigned || i64::try_from(want) == Ok(signed)
}

/// Reads an octal number, or a big-endian one when the first bit is set.
fn number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        // The first byte only says how the others are meant.
        let high = field.len().saturating_sub(8).max(1);
        if field[0] != 0x80 || field[1..high].iter().any(|&b| b != 0) {
            return None;
        }
        return Some(field[high..].iter().fold(0, |n, &b| n << 8 | u64::from(b)));
    }
    let text = std::str::from_utf8(field).ok()?.trim_matches(|c| c == ' ' || c == '\0');
    if text.is_empty() { Some(0) } else { u64::from_str_radix(text, 8).ok() }
}

fn until_nul(field: &[u8]) -> &[u8] {
    &field[..field.iter().position(|&b| b == 0).unwrap_or(field.len())]
}

fn name_of(header: &[u8; 512]) -> Vec<u8> {
    let name = until_nul(&header[..100]);
    let prefix = until_nul(&header[345..500]);
    if header[257..263] != *b"ustar\0" || prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
}

fn long_name(bytes: &[u8], ahead: &mut Override) -> Option<()> {
    ahead.name = Some(until_nul(bytes).to_vec());
    Some(())
}

/// Reads PAX records: `length key=value\n`, where the length counts itself.
fn pax(mut bytes: &[u8], ahead: &mut Override) -> Option<()> {
    while !bytes.is_empty() && bytes[0] != 0 {
        let space = bytes.iter().position(|&b| b == b' ')?;
        let len: usize = std::str::from_utf8(&bytes[..space]).ok()?.parse().ok()?;
        let record = bytes.get(space + 1..len)?.strip_suffix(b"\n")?;
        let equals = record.iter().position(|&b| b == b'=')?;
        let (key, value) = (&record[..equals], &record[equals + 1..]);
        match key {
            b"path" => ahead.name = Some(value.to_vec()),
            b"size" => ahead.size = Some(std::str::from_utf8(value).ok()?.parse().ok()?),
            _ if key.starts_with(b"GNU.sparse.") => return None,
            _ => {}
        }
        bytes = &bytes[len..];
    }
    Some(())
}

/// Splits a name into key and extension, if it is part of a sample.
pub(crate) fn split_name(name: &str) -> Option<(&str, &str)> {
    let last = name.rfind('/').map_or(0, |i| i + 1);
    let dot = last + name[last..].find('.').filter(|&d| d > 0)?;
    Some((&name[..dot], &name[dot + 1..]))
}

/// A sample: its key and the members that it has of the wanted extensions.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) key: String,
    pub(crate) spans: Vec<Option<Span>>,
    pub(crate) header: u64,
}

/// Groups a walk's members into samples.
#[derive(Debug)]
pub(crate) struct Samples {
    pub(crate) walk: Walk,
    next: Option<Member>,
    is_over: bool,
    /// The position of the next sample, unless the walk is in the middle of one.
    position: u64,
    /// Where the first header is looked for, of a walk that began in the middle of a file.
    looks_from: Option<u64>,
}

/// # Reading from the middle
/// A reader that begins at any byte of an archive finds the first header behind it by its checksum. Of the entry that has it, an extended header may
/// be in front, so its name is not known; and the next entry's sample may have begun before it. So the reader's first sample is the
/// one that begins behind that next member. The position of a sample says the same for a reader that comes from the front: it is
/// the header of the entry before the last member of the sample before it. So each sample has one position, and positions ascend.
impl Samples {
    /// Begins where a sample does, or the file.
    pub(crate) fn new(forward: Forward, at: u64) -> Self {
        Self { walk: Walk::new(forward, at), next: None, is_over: false, position: 0, looks_from: None }
    }

    /// Begins at the first sample whose position is `offset` or behind.
    pub(crate) fn from_middle(forward: Forward, offset: u64) -> Self {
        let looks_from = (offset > 0).then_some(offset);
        Self { position: offset, looks_from, ..Self::new(forward, 0) }
    }

    /// Returns the position of the next sample, or what it is not before; `None` behind the last sample.
    pub(crate) fn position(&self) -> Option<u64> {
        (!self.is_over).then_some(self.position)
    }

    /// Finds the first sample of a walk that began in the middle of a file, unless no header begins before `end`.
    fn find(&mut self, end: u64) -> Result<bool> {
        let Some(from) = self.looks_from else { return Ok(true) };
        let Some(header) = find_header(&mut self.walk.forward, from, end)? else {
            self.looks_from = Some(from.max(end));
            self.position = from.max(end);
            return Ok(false);
        };
        self.looks_from = None;
        (self.walk.at, self.walk.payload) = (header, header);
        if matches!(self.walk.entry(false)?, Entry::End) {
            self.is_over = true;
            return Ok(true);
        }
        let first = self.peek_member()?.and_then(|member| split_name(&member.name)).map(|(key, _)| key.to_owned());
        while let Some(member) = self.peek_member()?
            && split_name(&member.name).map(|(key, _)| key) == first.as_deref()
        {
            self.position = member.before;
            self.next = None;
        }
        Ok(true)
    }

    /// Says whether there is a next sample whose position is before `end`. From there on, what is read is checked: a reader that begins at
    /// `end`, or behind it, finds the same headers.
    ///
    /// # Errors
    /// Data where it does not, because a member holds an archive.
    pub(crate) fn has_before(&mut self, end: u64) -> Result<bool> {
        // Of what a compressed file holds, every reader begins at the start.
        self.walk.check_from = (!self.walk.forward.is_decoded()).then_some(end);
        Ok(self.find(end)? && self.peek_member()?.is_some() && self.position < end)
    }

    /// Returns the next member that is part of a sample.
    fn peek_member(&mut self) -> Result<Option<&Member>> {
        while self.next.is_none() && !self.is_over {
            self.next = self.walk.next()?;
            self.is_over = self.next.is_none();
            self.next.take_if(|member| split_name(&member.name).is_none());
        }
        Ok(self.next.as_ref())
    }

    /// Returns the next sample with the members of `extensions`; `visit` sees each of these (extension and place) as it is passed, in file
    /// order.
    pub(crate) fn next(
        &mut self,
        extensions: &[String],
        mut visit: impl FnMut(&mut Forward, usize, Span) -> Result<()>,
    ) -> Result<Option<Sample>> {
        let mut sample: Option<Sample> = None;
        loop {
            self.peek_member()?;
            let Some(member) = self.next.take() else { return Ok(sample) };
            let Some((key, extension)) = split_name(&member.name) else { continue };
            if sample.as_ref().is_some_and(|s| s.key != key) {
                self.next = Some(member);
                return Ok(sample);
            }
            self.position = member.before;
            let sample = sample.get_or_insert_with(|| Sample {
                key: key.to_owned(),
                spans: vec![None; extensions.len()],
                header: member.header,
            });
            let Some(place) = extensions.iter().position(|e| e == extension) else { continue };
            if sample.spans[place].replace(member.span).is_some() {
                return Err(fail::corrupt(
                    self.walk.forward.object().uri(),
                    member.header,
                    "a sample holds the same extension twice",
                )
                .with("member", &member.name)
                .hint("members of one sample differ in what follows the first dot; write the shard again"));
            }
            limits::record(
                self.walk.forward.object().uri(),
                member.span.offset,
                "an archive's member",
                member.span.len,
            )
            .map_err(|e| e.with("member", &member.name))?;
            visit(&mut self.walk.forward, place, member.span)?;
        }
    }
}

/// Finds every sample of an archive, and gives back what it was read with.
pub(crate) fn table(forward: Forward, extensions: &[String], stop: &AtomicBool) -> Result<(TarTable, Forward)> {
    let mut samples = Samples::new(forward, 0);
    let mut table = TarTable::default();
    while let Some(sample) = samples.next(extensions, |_, _, _| Ok(()))? {
        crate::index::check(stop)?;
        table.push(&sample.key, &sample.spans);
    }
    Ok((table, samples.walk.forward))
}

/// Samples that are looked at to find the extensions.
const SAMPLES: usize = 100;
/// Bytes of an archive behind which no further sample is looked at.
const BYTES: u64 = 64 << 20;

/// What samples have beside their key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extension {
    pub(crate) name: String,
    /// Whether one of the samples that were looked at has none.
    pub(crate) lacked: bool,
}

/// Returns the extensions of the first samples, sorted; none in an archive without samples.
pub(crate) fn extensions(object: Arc<Object>) -> Result<Vec<Extension>> {
    // Many small requests would take longer than all that is looked at.
    let forward = if object.is_remote() { compressed::reading } else { compressed::skipping };
    let mut walk = Walk::new(forward(object.clone())?, 0);
    let (mut key, mut samples) = (None, Vec::<BTreeSet<String>>::new());
    loop {
        let member = match walk.next() {
            Ok(Some(member)) => member,
            Ok(None) => break,
            // Whoever reads the broken sample is told.
            Err(_) if samples.len() > 1 => {
                samples.pop();
                break;
            }
            Err(e) => return Err(e),
        };
        let Some((of, extension)) = split_name(&member.name) else { continue };
        if key.as_deref() != Some(of) {
            if samples.len() == SAMPLES || !samples.is_empty() && member.header > BYTES {
                break;
            }
            key = Some(of.to_owned());
            samples.push(BTreeSet::new());
        }
        let Some(sample) = samples.last_mut() else { continue };
        sample.insert(extension.to_owned());
        limits::columns("members of a sample", sample.len())
            .map_err(|e| e.with("file", object.uri()).with("offset", member.header))?;
    }
    let all: BTreeSet<&String> = samples.iter().flatten().collect();
    limits::columns("members of the first samples", all.len()).map_err(|e| e.with("file", object.uri()))?;
    let lacked = |name: &String| samples.iter().any(|sample| !sample.contains(name));
    Ok(all.into_iter().map(|name| Extension { name: name.clone(), lacked: lacked(name) }).collect())
}

/// A sample lacks an extension that the source has.
pub(crate) fn lacks(uri: &str, key: &str, extension: &str) -> Error {
    Error::data(format!("a sample has no {extension:?}"))
        .with("file", uri)
        .with("member", format!("{key}.{extension}"))
        .with("key", key)
        .hint(format!(
            "say that a sample may lack it: from_tar(paths, extensions=[{:?}, ...]), where all that is to be read is named; \
             or leave such samples out with on_error=\"skip\"",
            format!("{extension}?")
        ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_at_the_first_dot_of_the_last_component() {
        assert_eq!(split_name("a.b/c.d.jpg"), Some(("a.b/c", "d.jpg")));
        assert_eq!(split_name("0001.JPG"), Some(("0001", "JPG")));
        assert_eq!(split_name("x."), Some(("x", "")));
        for other in ["a.b/c", "._x.jpg", "a/.hidden", "noext", ""] {
            assert_eq!(split_name(other), None, "{other}");
        }
    }

    #[test]
    fn an_empty_sum_is_never_right() {
        let mut block = [0; 512];
        assert!(!sum_is_right(&block));
        block[..2].fill(0x80);
        assert!(!sum_is_right(&block), "signed bytes have the sum 0");
        block[148..155].copy_from_slice(b"0001000");
        assert!(sum_is_right(&block), "unsigned bytes have the sum 0o1000");
    }

    #[test]
    fn numbers_are_octal_or_base_256() {
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"   17 \0\0"), Some(0o17));
        assert_eq!(number(&[0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1]), Some(2 << 32 | 1));
        assert_eq!(number(&[0x80, 0, 0, 0, 0, 0, 1, 5]), Some(0x105));
        assert_eq!(number(&[0xff; 12]), None);
        assert_eq!(number(b"12x4"), None);
    }
}
