//! How alike two texts are, told from eight numbers a text.

use std::array;

/// Of a text, what is read; in bytes.
const TEXT_BYTES_MAX: usize = 16 << 10;
const SLOTS: usize = 8;

/// The least hash of the words that fall into each slot. Texts that share most of their words share most of the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sketch([u32; SLOTS]);

impl Default for Sketch {
    fn default() -> Self {
        Self([u32::MAX; SLOTS])
    }
}

impl Sketch {
    /// Adds the words of a text.
    pub(super) fn add(&mut self, text: &str) {
        let text = text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or_default();
        for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
            let hash = hash(word);
            let [slot, .., a, b, c, d] = hash.to_le_bytes();
            if let Some(least) = self.0.get_mut(usize::from(slot) % SLOTS) {
                *least = u32::from_le_bytes([a, b, c, d]).min(*least);
            }
        }
    }

    /// Slots that agree: 0 for texts that share nothing or are empty, 8 for texts of the same words.
    pub(super) fn likeness(&self, other: &Self) -> u32 {
        let agree = array::from_fn::<u32, SLOTS, _>(|slot| {
            let (a, b) = (self.0.get(slot), other.0.get(slot));
            u32::from(a == b && a != Some(&u32::MAX))
        });
        agree.iter().sum()
    }
}

/// FNV-1a with a last mixing: the same on every machine.
fn hash(word: &str) -> u64 {
    let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
