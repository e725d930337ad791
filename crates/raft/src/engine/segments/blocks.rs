//! Memory that begins at a block's boundary, as writing past the page cache asks for.

use super::BLOCK;

/// Grows to the largest group, a megabyte and a little.
#[derive(Default)]
pub(super) struct Blocks {
    memory: Vec<u8>,
}

impl Blocks {
    /// The same bytes, at such a place.
    pub(super) fn of(&mut self, bytes: &[u8]) -> &[u8] {
        let room = bytes.len() + BLOCK;
        if self.memory.len() < room {
            self.memory = vec![0; room.next_power_of_two()];
        }
        let begin = self.memory.as_ptr().align_offset(BLOCK);
        let place = &mut self.memory[begin..begin + bytes.len()];
        place.copy_from_slice(bytes);
        place
    }
}
