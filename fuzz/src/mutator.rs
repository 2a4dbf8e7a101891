//! Makes inputs of inputs: small edits, pieces of others, words that readers look for.
//!
//! ```text
//! seed, corpus, words ──▶ Mutator::make ──▶ an input like one of the corpus
//! ```
//!
//! The same seed and corpus give the same inputs. BOUND: inputs have at most [`LARGEST`] bytes.
//! Upstream: none; the edits are those of AFL and libFuzzer.

/// The largest input that is made.
pub const LARGEST: usize = 64 << 10;

/// BOUND: how many inputs are kept to make others of.
const KEPT: usize = 4096;

/// A source of inputs.
#[derive(Debug)]
pub struct Mutator {
    numbers: u64,
    corpus: Vec<Vec<u8>>,
    words: &'static [&'static [u8]],
}

impl Mutator {
    /// Inputs made of these, in an order that the seed decides.
    #[must_use]
    pub fn new(seed: u64, corpus: Vec<Vec<u8>>, words: &'static [&'static [u8]]) -> Self {
        let corpus = match corpus.is_empty() {
            true => vec![Vec::new()],
            false => corpus,
        };
        Self {
            numbers: seed ^ 0x9e37_79b9_7f4a_7c15,
            corpus,
            words,
        }
    }

    /// An input that turned out to be of a new kind: others are made of it, too.
    pub fn keep(&mut self, input: &[u8]) {
        if self.corpus.len() < KEPT {
            self.corpus.push(input.to_vec());
        } else {
            let at = self.below(KEPT);
            self.corpus[at] = input.to_vec();
        }
    }

    /// The next input.
    pub fn make(&mut self) -> Vec<u8> {
        let at = self.below(self.corpus.len());
        let mut input = self.corpus[at].clone();
        for _ in 0..=self.below(4) {
            self.edit(&mut input);
            input.truncate(LARGEST);
        }
        input
    }

    fn edit(&mut self, input: &mut Vec<u8>) {
        let from = self.below(input.len() + 1);
        let length = self.short().min(input.len() - from);
        let span = from..from + length;
        match self.below(12) {
            0 | 1 => self.change_byte(input),
            2 => drop(input.drain(span)),
            3 => input.truncate(from),
            4..=6 => {
                let word = self.words[self.below(self.words.len())];
                let cut = if self.below(2) == 0 {
                    0
                } else {
                    word.len().min(length)
                };
                drop(input.splice(from..from + cut, word.iter().copied()));
            }
            7 => {
                let piece = input[span].to_vec();
                let to = self.below(input.len() + 1);
                drop(input.splice(to..to, piece));
            }
            8 => {
                let other = self.below(self.corpus.len());
                let at = self.below(self.corpus[other].len() + 1);
                input.truncate(from);
                input.extend_from_slice(&self.corpus[other][at..]);
            }
            9 => self.repeat(input, span),
            10 => self.change_number(input),
            _ => {
                let byte = self.below(256) as u8;
                input.insert(from, byte);
            }
        }
    }

    fn change_byte(&mut self, input: &mut [u8]) {
        if input.is_empty() {
            return;
        }
        let at = self.below(input.len());
        input[at] = match self.below(3) {
            0 => input[at] ^ 1 << self.below(8),
            1 => self.below(256) as u8,
            _ => input[at].wrapping_add(1),
        };
    }

    /// Repeats a piece many times: work that is not linear shows.
    fn repeat(&mut self, input: &mut Vec<u8>, span: std::ops::Range<usize>) {
        let piece = input[span.clone()].to_vec();
        if piece.is_empty() {
            return;
        }
        // Most repeats are short, so that most inputs stay cheap.
        let most = match self.below(64) {
            0 => LARGEST,
            1..8 => 4096,
            _ => 256,
        };
        let times = 1 + self.below(most / piece.len() + 1);
        drop(input.splice(span, piece.repeat(times)));
    }

    /// A length or a digit that is another one.
    fn change_number(&mut self, input: &mut [u8]) {
        let is_number = |byte: &u8| byte.is_ascii_digit() || *byte < 0x20;
        let places: Vec<usize> = (0..input.len())
            .filter(|at| is_number(&input[*at]))
            .collect();
        if places.is_empty() {
            return;
        }
        let at = places[self.below(places.len())];
        input[at] = match input[at].is_ascii_digit() {
            true => b'0' + self.below(10) as u8,
            false => self.below(0x80) as u8,
        };
    }

    /// Mostly a few, sometimes many.
    fn short(&mut self) -> usize {
        match self.below(8) {
            0 => self.below(4096),
            1 | 2 => self.below(128),
            _ => 1 + self.below(8),
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.numbers = self
            .numbers
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.numbers >> 33) as usize) % bound.max(1)
    }
}
