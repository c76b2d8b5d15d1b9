//! 128 bits for each world instead of the world itself: of ten million worlds, two share them with a chance of 1 in 10^24.

use super::world::World;
use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{BuildHasherDefault, Hash, Hasher},
};

/// Odd, and without a pattern: the digits of the golden ratio.
const MULTIPLIER: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

/// What is kept of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(u128);

impl Fingerprint {
    /// Of no world: where the first one comes from.
    pub const NONE: Self = Self(0);

    pub fn of(world: &World) -> Self {
        let mut mix = Mix(MULTIPLIER);
        world.hash(&mut mix);
        Self(mix.0 ^ (mix.0 >> 64))
    }
}

// By hand, so that one number is written, and `Place` sees it whole.
impl Hash for Fingerprint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(self.0);
    }
}

/// Takes in whole words, since a debug build pays for every call.
struct Mix(u128);

impl Mix {
    fn word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(29) ^ u128::from(word)).wrapping_mul(MULTIPLIER);
    }
}

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        unreachable!("the whole state is read")
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.word(u64::from(*byte));
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.word(u64::from(n));
    }

    fn write_u32(&mut self, n: u32) {
        self.word(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        self.word(n);
    }

    fn write_usize(&mut self, n: usize) {
        self.word(n as u64);
    }

    fn write_isize(&mut self, n: isize) {
        self.word(n.cast_unsigned() as u64);
    }
}

/// A fingerprint is as good as random already.
#[derive(Default)]
struct Place(u64);

impl Hasher for Place {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a fingerprint is one number");
    }

    #[expect(clippy::cast_possible_truncation, reason = "half of it is enough to find a place")]
    fn write_u128(&mut self, n: u128) {
        self.0 = n as u64;
    }
}

/// The worlds that were reached, each with the one that it was first reached from.
#[derive(Default)]
pub struct Known(HashMap<Fingerprint, Fingerprint, BuildHasherDefault<Place>>);

impl Known {
    /// Whether it is new.
    pub fn insert(&mut self, world: Fingerprint, from: Fingerprint) -> bool {
        match self.0.entry(world) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                free.insert(from);
                true
            }
        }
    }

    /// The worlds on the shortest way to this one, from the start to itself.
    pub fn way_to(&self, world: Fingerprint) -> Vec<Fingerprint> {
        let mut way: Vec<_> = std::iter::successors(Some(world), |world| self.0.get(world).copied())
            .take_while(|world| *world != Fingerprint::NONE)
            .collect();
        way.reverse();
        way
    }
}
