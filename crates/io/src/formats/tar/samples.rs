//! Groups the members of an archive into samples, from its start or from any byte of it.

use forebay_core::Result;

use super::header::find_header;
use super::split_name;
use super::walk::{Entry, Member, Walk};
use crate::index::table::Span;
use crate::store::Forward;
use crate::{fail, limits};

/// A sample: its key and its members with the wanted extensions.
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
    /// Where a walk that began in the middle of a file looks for the first header.
    looks_from: Option<u64>,
}

/// # Reading from the middle
/// A reader that begins at any byte of an archive finds the first header after it by its checksum. That entry may have
/// an extended header in front, so its name is not known; and the next entry's sample may have begun before it. So the
/// reader's first sample is the first that begins after that next member. A reader from the front uses an equal
/// definition: the position of a sample is the header of the entry before the last member of the previous sample. So
/// each sample has one position, and positions ascend.
impl Samples {
    /// Begins at a sample, or at the start of the file.
    pub(crate) fn new(forward: Forward, at: u64) -> Self {
        Self { walk: Walk::new(forward, at), next: None, is_over: false, position: 0, looks_from: None }
    }

    /// Begins at the first sample with a position of at least `offset`.
    pub(crate) fn from_middle(forward: Forward, offset: u64) -> Self {
        let looks_from = (offset > 0).then_some(offset);
        Self { position: offset, looks_from, ..Self::new(forward, 0) }
    }

    /// Returns the position of the next sample, or a lower bound of it; `None` after the last sample.
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

    /// Says whether there is a next sample whose position is before `end`. From there on, payloads are checked: a
    /// reader that begins at `end` or later must find the same headers.
    ///
    /// # Errors
    /// Data where it would not, because a member holds an archive.
    pub(crate) fn has_before(&mut self, end: u64) -> Result<bool> {
        // A compressed file is always read from the start.
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

    /// Returns the next sample with the members of `extensions`; `visit` is called with each of these (extension and
    /// place), in file order.
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
