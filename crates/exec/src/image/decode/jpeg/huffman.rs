//! Huffman codes of baseline JPEG (ITU-T T.81, annex F.2.2): decodes the number at the start of some bits.
//!
//! One look-up of the next [`FAST`] bits yields the code and the number that follows it together; where numbers are not
//! wanted, one look-up skips all numbers that are complete in those bits. Invariant: a result follows the table; other
//! input is reported, and the caller decides.

use super::bits::Bits;

/// Bits of one look-up. Most codes together with their number are not longer.
pub(super) const FAST: u32 = 11;
/// The step of a code that ends the block: past its end from anywhere in it.
const END_OF_BLOCK: usize = 128;

/// The order in which a block's coefficients are coded (T.81, figure 5).
const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21,
    28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54,
    47, 55, 62, 63,
];

/// The same for any index that a damaged file or the end of a block can reach: a number there is stored in the place of
/// the DC coefficient.
const NATURAL_ORDER: [u8; 256] = {
    let mut order = [0; 256];
    let mut k = 0;
    while k < 64 {
        order[k] = ZIGZAG[k];
        k += 1;
    }
    order
};

/// The coefficients of a block, in their natural order.
pub(super) type Block = [i16; 64];

/// A Huffman table as a file has it: how many codes of each length from 1, and their symbols.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Codes {
    pub(super) counts: [u8; 16],
    pub(super) symbols: Box<[u8; 256]>,
}

/// A table with its look-ups, reused while images have the same table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) codes: Codes,
    /// The first number of each value of the next [`FAST`] bits.
    fast: Box<[Entry; 1 << FAST]>,
    pass: Box<[Pass; 1 << FAST]>,
    /// For codes of each length: one more than the last code, and the offset from a code to its symbol.
    end: [u32; 17],
    offset: [i32; 17],
}

/// The first number of some bits. From the lowest: 7 bits of length; [`INCOMPLETE`]; 8 bits of step, which is one more
/// than the zeros before the number; 16 bits of number. An incomplete entry has only the code's length and the number's
/// size, or 0 for both when the code is longer than the bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry(u32);

const INCOMPLETE: u32 = 0x80;

impl Entry {
    const LONG: Self = Self(INCOMPLETE);

    fn complete(len: u32, step: usize, number: i32) -> Self {
        Self(len | (step as u32) << 8 | (number as u32) << 16)
    }

    fn code(len: u32, step: usize, size: u32) -> Self {
        Self(len | INCOMPLETE | (step as u32) << 8 | size << 16)
    }

    #[inline(always)]
    fn is_complete(self) -> bool {
        self.0 & INCOMPLETE == 0
    }

    /// The length, with a higher bit set when it is incomplete.
    #[inline(always)]
    fn len(self) -> u32 {
        self.0 & 0xFF
    }

    #[inline(always)]
    fn step(self) -> usize {
        (self.0 >> 8 & 0xFF) as usize
    }

    #[inline(always)]
    fn number(self) -> i16 {
        (self.0 >> 16) as i16
    }
}

/// All complete numbers in some bits, for skipping. From the lowest: 4 bits of length, 0 for none; 7 bits of steps; 1
/// when the block ends after them.
#[derive(Debug, Clone, Copy, Default)]
struct Pass(u16);

impl Pass {
    fn of(bits: u32, fast: &[Entry; 1 << FAST]) -> Self {
        let (mut len, mut steps) = (0, 0);
        loop {
            let entry = fast[(bits << len) as usize & ((1 << FAST) - 1)];
            if !entry.is_complete() || len + entry.len() > FAST {
                return Self((len | steps << 4) as u16);
            }
            len += entry.len();
            if entry.step() == END_OF_BLOCK {
                return Self((len | steps << 4 | 1 << 11) as u16);
            }
            steps += entry.step() as u32;
            if steps > 63 {
                return Self(0);
            }
        }
    }

    #[inline(always)]
    fn len(self) -> u32 {
        u32::from(self.0 & 15)
    }

    #[inline(always)]
    fn steps(self) -> usize {
        usize::from(self.0 >> 4 & 127)
    }

    #[inline(always)]
    fn ends(self) -> bool {
        self.0 >> 11 != 0
    }
}

/// The two kinds of tables.
pub(super) const DC: usize = 0;
pub(super) const AC: usize = 1;

impl Table {
    /// Prepares a table; `None` when it is not a valid one.
    pub(super) fn new(codes: Codes, kind: usize) -> Option<Self> {
        let mut table = Self {
            codes,
            fast: Box::new([Entry::LONG; 1 << FAST]),
            pass: Box::new([Pass::default(); 1 << FAST]),
            end: [0; 17],
            offset: [0; 17],
        };
        let (mut code, mut place) = (0u32, 0usize);
        for len in 1..=16u32 {
            let count = usize::from(table.codes.counts[len as usize - 1]);
            table.offset[len as usize] = place as i32 - code as i32;
            for i in place..place + count {
                let symbol = *table.codes.symbols.get(i)?;
                table.enter(code, len, symbol, kind);
                code += 1;
            }
            place += count;
            table.end[len as usize] = code;
            if code > 1 << len {
                return None;
            }
            code <<= 1;
        }
        if kind == AC {
            for bits in 0..1u32 << FAST {
                table.pass[bits as usize] = Pass::of(bits, &table.fast);
            }
        }
        Some(table)
    }

    /// Enters all bits that begin with a code.
    fn enter(&mut self, code: u32, len: u32, symbol: u8, kind: usize) {
        if len > FAST || code >> len != 0 {
            return;
        }
        let (step, size) = meaning(symbol, kind);
        let Some(spare) = FAST.checked_sub(len + size) else {
            return self.fill(code << (FAST - len), FAST - len, Entry::code(len, step, size));
        };
        for number in 0..1u32 << size {
            let entry = Entry::complete(len + size, step, extend(number, size));
            self.fill((code << size | number) << spare, spare, entry);
        }
    }

    fn fill(&mut self, first: u32, spare: u32, entry: Entry) {
        self.fast[first as usize..][..1 << spare].fill(entry);
    }

    /// Reads a code that is longer than a look-up; [`Entry::LONG`] when there is no such code.
    #[cold]
    #[inline(never)]
    fn long_code(&self, window: u64, kind: usize) -> Entry {
        let next = (window >> 48) as u32;
        let code = |len: u32| next >> (16 - len);
        let Some(len) = (FAST + 1..=16).find(|&len| code(len) < self.end[len as usize]) else {
            return Entry::LONG;
        };
        let place = usize::try_from(code(len) as i32 + self.offset[len as usize]);
        let Some(&symbol) = place.ok().and_then(|place| self.codes.symbols.get(place)) else { return Entry::LONG };
        let (step, size) = meaning(symbol, kind);
        Entry::code(len, step, size)
    }

    #[inline(always)]
    fn look(&self, bits: &Bits) -> Entry {
        self.fast[bits.index()]
    }

    /// Reads the step and the number of an incomplete entry. A step of 0 is an error.
    #[inline(always)]
    fn read(&self, entry: Entry, bits: &mut Bits, kind: usize) -> (usize, i32) {
        let entry = if entry == Entry::LONG { self.long_code(bits.window, kind) } else { entry };
        let size = entry.0 >> 16;
        if size > 15 || entry == Entry::LONG {
            return (0, 0);
        }
        bits.skip(entry.len() & !INCOMPLETE);
        (entry.step(), bits.number(size))
    }

    /// Reads a number with its code: the difference of a DC coefficient.
    #[inline(always)]
    pub(super) fn number(&self, bits: &mut Bits, data: &[u8]) -> Option<i32> {
        bits.refill(data);
        let entry = self.look(bits);
        if entry.is_complete() {
            bits.skip(entry.len());
            return Some(i32::from(entry.number()));
        }
        let (step, number) = self.read(entry, bits, DC);
        (step != 0).then_some(number)
    }

    /// Reads the AC coefficients of a block; it may write arbitrary numbers to the DC coefficient's place. Returns
    /// false for invalid data.
    #[inline(always)]
    pub(super) fn coefficients(&self, bits: &mut Bits, data: &[u8], block: &mut Block) -> bool {
        let mut here = *bits;
        let mut k = 0;
        let mut put = |k: usize, number: i16| {
            // SAFETY: a step is at most 128, and is taken from at most 62; a place in a block is below 64.
            unsafe { *block.get_unchecked_mut(usize::from(*NATURAL_ORDER.get_unchecked(k))) = number }
        };
        'block: loop {
            // 56 bits: enough for two complete entries, and any third.
            here.refill(data);
            let mut entry = self.look(&here);
            for _ in 0..2 {
                if !entry.is_complete() {
                    break;
                }
                here.skip(entry.len());
                k += entry.step();
                put(k, entry.number());
                if k >= 63 {
                    break 'block;
                }
                entry = self.look(&here);
            }
            if entry.is_complete() {
                here.skip(entry.len());
                k += entry.step();
                put(k, entry.number());
            } else {
                let (step, number) = self.read(entry, &mut here, AC);
                if step == 0 {
                    return false;
                }
                k += step;
                put(k, number as i16);
            }
            if k >= 63 {
                break;
            }
        }
        *bits = here;
        k == 63 || k >= END_OF_BLOCK
    }

    /// Skips the AC coefficients of a block; returns false for invalid data.
    #[inline(always)]
    pub(super) fn pass(&self, bits: &mut Bits, data: &[u8]) -> bool {
        let mut here = *bits;
        let mut k = 0;
        while k < 63 {
            here.refill(data);
            let mut pass = self.pass[here.index()];
            for _ in 0..2 {
                // The block may end among the numbers: they are then read one by one.
                if pass.len() == 0 || k + pass.steps() >= 63 {
                    break;
                }
                here.skip(pass.len());
                k += pass.steps();
                if pass.ends() {
                    *bits = here;
                    return true;
                }
                pass = self.pass[here.index()];
            }
            let entry = self.look(&here);
            if entry.is_complete() {
                here.skip(entry.len());
                k += entry.step();
            } else {
                let (step, _) = self.read(entry, &mut here, AC);
                if step == 0 {
                    return false;
                }
                k += step;
            }
        }
        *bits = here;
        k == 63 || k >= END_OF_BLOCK
    }
}

/// Returns the distance of a number from the one before it, and the number's size in bits. A size of 255 marks an
/// invalid symbol.
fn meaning(symbol: u8, kind: usize) -> (usize, u32) {
    let (run, size) = (usize::from(symbol >> 4), u32::from(symbol & 15));
    match (kind, run, size) {
        (DC, ..) => (1, if run == 0 { size } else { 255 }),
        (_, 0, 0) => (END_OF_BLOCK, 0),
        (_, 1..15, 0) => (1, 255),
        _ => (run + 1, size),
    }
}

/// Makes a signed number of its bits (T.81, figure F.12). Its sign is nearly random, so the code does not branch on it.
#[inline(always)]
pub(super) fn extend(number: u32, size: u32) -> i32 {
    let (number, range) = (number as i32, 1 << size);
    let is_negative = (number - (range >> 1)) >> 31;
    number + (is_negative & (1 - range))
}
