//! Frames: what a segment is a row of.
//!
//! `[checksum u32][bytes of the items u32][number u64][flushed u64][checksum of the frame before u32][life u32]`, then the
//! items, then zeros up to the next multiple of eight. The checksum covers all that follows it but those zeros.
//!
//! Numbers rise by one through all segments. A frame is the next one only if its number follows *and* it names the
//! checksum of the frame before: what an earlier use of the file left behind fits neither, and what a torn end left
//! behind names a frame of an earlier life. `flushed` is the number up to which all was durable when the frame was
//! written: a hole below it is damage, not a torn end.

use super::FRAME_BYTES_MAX;

/// Bytes before the items.
pub(super) const HEAD: usize = 32;
/// Frames begin at multiples of this.
pub(super) const ALIGN: usize = 8;

/// Which frame it was, for the one behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) number: u64,
    pub(super) checksum: u32,
}

/// A frame whose checksum matches.
pub(super) struct Frame {
    pub(super) link: Link,
    /// Checksum of the frame before.
    pub(super) previous: u32,
    /// Bytes of its items, behind its head.
    pub(super) items: usize,
}

impl Frame {
    /// From its first byte to that of the next.
    pub(super) fn bytes(&self) -> usize {
        (HEAD + self.items).next_multiple_of(ALIGN)
    }

    /// Whether it is the next one after `last`.
    pub(super) fn follows(&self, last: Link) -> bool {
        last.number.checked_add(1) == Some(self.link.number) && self.previous == last.checksum
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|eight| eight.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The frame that begins `bytes`, or why there is none.
pub(super) fn parse(bytes: &[u8]) -> Result<Frame, &'static str> {
    let items = u32_at(bytes, 4) as usize;
    let checksum = u32_at(bytes, 0);
    if bytes.len() < HEAD || bytes[..HEAD].iter().all(|byte| *byte == 0) {
        return Err("there is no frame");
    }
    if items > FRAME_BYTES_MAX || HEAD + items > bytes.len() {
        return Err("the length of its frame does not fit");
    }
    if crc32fast::hash(&bytes[4..HEAD + items]) != checksum {
        return Err("the checksum of its frame does not match");
    }
    let link = Link { number: u64_at(bytes, 8), checksum };
    Ok(Frame { link, previous: u32_at(bytes, 24), items })
}

/// Fills in the head of a frame, whose items are there; answers its checksum.
pub(super) fn seal(frame: &mut [u8], last: Link, flushed: u64, life: u32) -> Link {
    let number = last.number + 1;
    // Bounded by FRAME_BYTES_MAX.
    let items = (frame.len() - HEAD) as u32;
    frame[4..8].copy_from_slice(&items.to_le_bytes());
    frame[8..16].copy_from_slice(&number.to_le_bytes());
    frame[16..24].copy_from_slice(&flushed.to_le_bytes());
    frame[24..28].copy_from_slice(&last.checksum.to_le_bytes());
    frame[28..32].copy_from_slice(&life.to_le_bytes());
    let checksum = crc32fast::hash(&frame[4..]);
    frame[..4].copy_from_slice(&checksum.to_le_bytes());
    Link { number, checksum }
}

/// Looks behind the end of what can be read, from byte `from` on, for a frame that says that more than `last` was
/// durable when it was written: where it is, and up to which number.
pub(super) fn flushed_beyond(bytes: &[u8], from: usize, last: u64) -> Option<(usize, u64)> {
    // A file holds far fewer frames. What is no head is passed over without computing checksums.
    let numbers = last..last.saturating_add(1 << 32);
    let heads = (from.next_multiple_of(ALIGN)..bytes.len().saturating_sub(HEAD - 1)).step_by(ALIGN);
    heads
        .map(|at| (at, u64_at(bytes, at + 16), u64_at(bytes, at + 8)))
        .filter(|&(_, flushed, number)| last < flushed && flushed < number && numbers.contains(&number))
        .find(|&(at, ..)| parse(&bytes[at..]).is_ok())
        .map(|(at, flushed, _)| (at, flushed))
}
