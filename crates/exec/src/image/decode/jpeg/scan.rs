//! Decodes the entropy coded data of one scan of a plain JPEG, MCU by MCU, which is most of the work of decoding an
//! image.
//!
//! The stuffed zero bytes are removed beforehand, so that reading bits need not check for them; coefficients outside
//! the wanted columns are skipped and not stored. Invariant: a decoder returns the same coefficients as libjpeg-turbo,
//! or `false`. It returns `false` for all damaged or unusual data up to its current place; the caller decides about the
//! error.

use super::bits::Bits;
use super::huffman::{AC, Block, Codes, DC, Table};
use super::region::Opened;

/// Zeros after the data of each segment, so that reading eight bytes never needs a special case.
const PADDING: usize = 16;
/// One block of an MCU.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BlockOf {
    pub(super) component: usize,
    pub(super) dc: usize,
    pub(super) ac: usize,
}

/// The properties of a scan.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) mcus_per_row: u32,
    /// MCUs between restart markers; 0 for none.
    pub(super) restart_interval: u32,
    /// The MCUs of a row with wanted coefficients.
    pub(super) wanted: std::ops::RangeInclusive<u32>,
    pub(super) blocks: Vec<BlockOf>,
}

/// Decodes the MCUs of one scan after another, reusing its tables and its memory.
#[derive(Debug, Default)]
pub(super) struct Entropy {
    tables: [Vec<Table>; 2],
    data: Vec<u8>,
    /// Where the data of each segment begins and ends.
    segments: Vec<(usize, usize)>,
    layout: Option<Layout>,
    bits: Bits,
    segment: usize,
    /// MCUs until the next segment; meaningless without restart markers.
    left: u32,
    column: u32,
    /// The last DC coefficient of each component.
    last: [i32; 4],
}

impl Entropy {
    /// Begins a scan: `data` follows its header. Returns false when this decoder cannot decode it.
    pub(super) fn begin(&mut self, data: &[u8], codes: [[Option<Codes>; 4]; 2], layout: Layout) -> bool {
        for (kind, of_kind) in codes.into_iter().enumerate() {
            self.tables[kind].truncate(4);
            for (i, codes) in of_kind.into_iter().enumerate() {
                let codes = codes.unwrap_or(Codes { counts: [0; 16], symbols: Box::new([0; 256]) });
                if self.tables[kind].get(i).is_some_and(|t| t.codes == codes) {
                    continue;
                }
                let Some(table) = Table::new(codes, kind) else { return false };
                if i < self.tables[kind].len() {
                    self.tables[kind][i] = table;
                } else {
                    self.tables[kind].push(table);
                }
            }
        }
        let known = |b: &BlockOf| b.dc < 4 && b.ac < 4 && b.component < 4;
        if !layout.blocks.iter().all(known) {
            return false;
        }
        if !self.unstuff(data, layout.restart_interval > 0) {
            return false;
        }
        (self.segment, self.column, self.left) = (0, 0, layout.restart_interval);
        self.layout = Some(layout);
        self.start_segment()
    }

    /// Says whether an image of one scan has only coded data and the expected restart markers up to its end. If so, the
    /// data after a region cannot make the image an error.
    pub(super) fn is_undisturbed(&mut self, image: &Opened<'_>) -> bool {
        self.unstuff(image.coded(), image.info.restart_interval > 0)
    }

    /// Removes stuffed bytes, and records the places of restart markers. Returns false when anything but the end of the
    /// image follows.
    fn unstuff(&mut self, mut data: &[u8], restarts: bool) -> bool {
        self.data.clear();
        self.segments.clear();
        let (mut start, mut restart) = (0, 0xD0);
        loop {
            let plain = memchr::memchr(0xFF, data).unwrap_or(data.len());
            self.data.extend_from_slice(&data[..plain]);
            data = &data[plain..];
            match data {
                [0xFF, 0x00, rest @ ..] => {
                    self.data.push(0xFF);
                    data = rest;
                }
                [0xFF, 0xFF, ..] => data = &data[1..],
                [0xFF, marker, rest @ ..] if restarts && *marker == restart => {
                    restart = 0xD0 | (restart + 1) & 7;
                    start = self.end_segment(start);
                    data = rest;
                }
                _ => break,
            }
        }
        self.end_segment(start);
        matches!(data, [0xFF, 0xD9, ..])
    }

    fn end_segment(&mut self, start: usize) -> usize {
        self.segments.push((start, self.data.len()));
        self.data.resize(self.data.len() + PADDING, 0);
        self.data.len()
    }

    fn start_segment(&mut self) -> bool {
        let Some(&(start, _)) = self.segments.get(self.segment) else { return false };
        self.bits = Bits::from(start);
        self.last = [0; 4];
        true
    }

    /// Returns the blocks of an MCU.
    pub(super) fn num_blocks(&self) -> usize {
        self.layout.as_ref().map_or(0, |l| l.blocks.len())
    }

    /// Decodes the next MCU into zeroed blocks, or skips it without blocks when its coefficients are not wanted.
    pub(super) fn mcu(&mut self, blocks: Option<&[*mut Block]>) -> bool {
        let Some(layout) = &self.layout else { return false };
        let wanted = layout.wanted.contains(&self.column);
        self.column = if self.column + 1 == layout.mcus_per_row { 0 } else { self.column + 1 };
        if layout.restart_interval > 0 {
            if self.left == 0 {
                self.left = layout.restart_interval;
                self.segment += 1;
                if !self.start_segment() {
                    return false;
                }
            }
            self.left -= 1;
        }
        let blocks = blocks.filter(|_| wanted);
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("bmi1") && std::arch::is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor has these instructions.
            return unsafe { self.blocks_bmi(blocks) };
        }
        self.blocks(blocks)
    }

    /// The same with shifts by any register (BMI2), because decoding mostly shifts.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "bmi1,bmi2")]
    fn blocks_bmi(&mut self, blocks: Option<&[*mut Block]>) -> bool {
        self.blocks(blocks)
    }

    #[inline(always)]
    fn blocks(&mut self, blocks: Option<&[*mut Block]>) -> bool {
        let (Some(layout), Some(&(_, end))) = (&self.layout, self.segments.get(self.segment)) else { return false };
        let mut bits = self.bits;
        for (i, of) in layout.blocks.iter().enumerate() {
            let (Some(dc), Some(ac)) = (self.tables[DC].get(of.dc), self.tables[AC].get(of.ac)) else { return false };
            let Some(difference) = dc.number(&mut bits, &self.data) else { return false };
            let last = &mut self.last[of.component & 3];
            *last = last.wrapping_add(difference);
            let done = match blocks.and_then(|b| b.get(i)) {
                // SAFETY: libjpeg-turbo's own blocks, as many as the MCU has, valid for this call.
                Some(&block) => {
                    let block = unsafe { &mut *block };
                    let done = ac.coefficients(&mut bits, &self.data, block);
                    block[0] = *last as i16;
                    done
                }
                None => ac.pass(&mut bits, &self.data),
            };
            if !done {
                return false;
            }
        }
        self.bits = bits;
        bits.position() <= end * 8
    }
}
