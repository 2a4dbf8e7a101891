//! Deterministic pseudo-random numbers: equal for equal seeds, on every machine and version.
//!
//! ```text
//! seed ──splitmix64──▶ numbers, hexadecimal digits, uids, moments
//! ```

/// A source of numbers.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The next number (splitmix64).
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap_or_default()
    }

    /// Returns that many hexadecimal digits.
    pub(crate) fn hex(&mut self, digits: usize) -> String {
        let mut text = String::with_capacity(digits);
        while text.len() < digits {
            let number = self.next();
            let nibbles = (0..16).map(|at| number >> (4 * at) & 15);
            let letters = nibbles.map(|nibble| char::from(b"0123456789abcdef"[nibble as usize]));
            text.extend(letters.take(digits - text.len()));
        }
        text
    }

    /// A version 4 UUID.
    pub(crate) fn uid(&mut self) -> String {
        let (high, low) = (u128::from(self.next()), u128::from(self.next()));
        uuid::Builder::from_random_bytes((high << 64 | low).to_be_bytes())
            .into_uuid()
            .to_string()
    }

    /// A moment of January 2026.
    pub(crate) fn moment(&mut self) -> String {
        let number = self.next() % (28 * 86_400);
        let (day, hour) = (number / 86_400 + 1, number / 3600 % 24);
        format!(
            "2026-01-{day:02}T{hour:02}:{:02}:{:02}Z",
            number / 60 % 60,
            number % 60
        )
    }
}
