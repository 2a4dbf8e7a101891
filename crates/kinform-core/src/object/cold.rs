//! The cold form of an object: its bytes compressed, its head as it is.
//!
//! ```text
//! samples ─Dictionary::train─▶ Dictionary ─Press::pack─▶ cold Object ─thawed─▶ the same Object again
//! ```
//!
//! Objects of one kind repeat each other: names of fields, containers, conditions. A dictionary of what they
//! repeat leaves of an object what is its own. Key, uid and version are read without inflating, as copies behind
//! the compressed bytes; every other reader of the bytes inflates them: into a twin that is the reader's own
//! ([`Object::thawed`]), or, for whoever reads in place, beside the compressed bytes for as long as the object lives.
//!
//! Bytes are compressed by zstd with the feature `compressed`, else by LZ4: see `dictionary`.
//!
//! Upstream: none. Complexity: some 20 microseconds to pack 5 KB of a pod, 6 to inflate them.

use std::borrow::Cow;
use std::fmt;
use std::mem::size_of;
use std::sync::{Arc, OnceLock};

use triomphe::ThinArc;

use super::dictionary::{Context, Dictionary, SCRATCH_BYTES};
use super::typed::TypedSlot;
use super::{Head, Object};

/// BOUND: bytes of a dictionary. A quarter of it did as well on generated pods; real ones have more to repeat.
const DICTIONARY_BYTES: usize = 64 << 10;
/// The size of the samples of a dictionary, in multiples of its own size, at least. Zstd's authors
/// advise 100 times; for pods 19 times was as good, and less was not measured.
const SAMPLES_PER_DICTIONARY: usize = 8;
/// BOUND: what a sample adds to a training; what objects repeat is at their beginning as well.
pub(crate) const SAMPLE_BYTES: usize = 64 << 10;
/// Makes objects cold with one dictionary.
pub struct Press {
    dictionary: Arc<Dictionary>,
    context: Context,
    packed: Vec<u8>,
}

/// The part of a cold object that lies outside its head.
pub(super) struct Cold {
    dictionary: Arc<Dictionary>,
    // INVARIANT: the first `packed` bytes of the payload are compressed; the strings of the
    // identity follow, then the content that followed the bytes before.
    packed: u32,
    // What somebody read in place.
    warm: OnceLock<Object>,
}

/// A string of the head that is read without inflating.
#[derive(Clone, Copy)]
pub(super) enum IdentityText {
    Name,
    Namespace,
    Uid,
    ResourceVersion,
}

impl Dictionary {
    /// Learns from objects what their kind repeats; nothing if they are too few or have too little in common.
    ///
    /// # Complexity
    /// Some 150 milliseconds for 256 pods: run it beside what must not wait.
    #[must_use]
    pub fn train(samples: &[Object]) -> Option<Self> {
        Self::from_objects(samples, Self::of_samples)
    }

    /// The same for LZ4, as without the feature `compressed`: nothing is trained, and more is left.
    #[must_use]
    pub fn for_lz4(samples: &[Object]) -> Option<Self> {
        Self::from_objects(samples, Self::of_some)
    }

    fn from_objects(
        samples: &[Object],
        make: impl Fn(&[&[u8]], usize) -> Option<Self>,
    ) -> Option<Self> {
        let samples: Vec<_> = samples.iter().map(Object::thawed).collect();
        let samples: Vec<&[u8]> = samples
            .iter()
            .map(|object| {
                let bytes = object.bytes();
                &bytes[..bytes.len().min(SAMPLE_BYTES)]
            })
            .collect();
        let total: usize = samples.iter().map(|sample| sample.len()).sum();
        let size = (total / SAMPLES_PER_DICTIONARY).min(DICTIONARY_BYTES);
        make(&samples, size)
    }
}

impl Press {
    /// A press for this dictionary.
    #[must_use]
    pub fn new(dictionary: Arc<Dictionary>) -> Self {
        Self {
            dictionary,
            context: Context::new(),
            packed: Vec::new(),
        }
    }

    /// The cold twin of an object; nothing if it is cold, or would not be smaller by an eighth: inflating costs.
    pub fn pack(&mut self, object: &Object) -> Option<Object> {
        let head = object.head();
        if head.cold.is_some() {
            return None;
        }
        let (body, behind) = object.0.slice.split_at(head.body as usize);
        let texts = IdentityText::ALL.map(|of| object.identity_text(of));
        let overhead = size_of::<Cold>() + texts.iter().map(|text| text.len()).sum::<usize>();
        let packed = &mut self.packed;
        packed.clear();
        let (dictionary, context) = (&self.dictionary, &mut self.context);
        let written = dictionary.compress(context, body, packed, overhead);
        let length = written.filter(|length| (length + overhead) < body.len() / 8 * 7);
        let cold = length.map(|length| {
            texts.iter().for_each(|text| packed.extend_from_slice(text));
            packed.extend_from_slice(behind);
            let cold = Cold {
                dictionary: Arc::clone(&self.dictionary),
                packed: length as u32,
                warm: OnceLock::new(),
            };
            let head = head.twin(Some(Box::new(cold)));
            Object(ThinArc::from_header_and_slice(head, packed))
        });
        packed.clear();
        packed.shrink_to(SCRATCH_BYTES);
        cold
    }
}

impl Cold {
    /// Bytes behind the head of the object before it was packed.
    pub(super) fn plain_payload(&self, object: &Object) -> usize {
        let head = object.head();
        let texts = IdentityText::ALL.map(|of| head.identity_text(of).len as usize);
        let behind = object.0.slice.len() - self.packed as usize - texts.iter().sum::<usize>();
        head.body as usize + behind
    }
}

impl IdentityText {
    const ALL: [Self; 4] = [
        Self::Name,
        Self::Namespace,
        Self::Uid,
        Self::ResourceVersion,
    ];
}

impl Object {
    /// Returns whether its bytes are kept compressed.
    #[must_use]
    pub fn is_cold(&self) -> bool {
        self.head().cold.is_some()
    }

    /// The object with its bytes: itself, or of a cold one a twin that inflates no second time.
    ///
    /// Readers of a store take this: reading a cold object in place keeps what was inflated for as long as the
    /// object is stored.
    #[must_use]
    pub fn thawed(&self) -> Cow<'_, Self> {
        match &self.head().cold {
            None => Cow::Borrowed(self),
            Some(cold) => match cold.warm.get() {
                Some(warm) => Cow::Borrowed(warm),
                None => Cow::Owned(self.twin(cold)),
            },
        }
    }

    /// The same, to be read in place.
    pub(super) fn warm<'a>(&'a self, cold: &'a Cold) -> &'a Self {
        cold.warm.get_or_init(|| self.twin(cold))
    }

    fn twin(&self, cold: &Cold) -> Self {
        let head = self.head();
        let (packed, behind) = self.0.slice.split_at(cold.packed as usize);
        let texts: usize = IdentityText::ALL
            .map(|of| head.identity_text(of).len as usize)
            .iter()
            .sum();
        let dictionary = &cold.dictionary;
        dictionary.inflated(packed, head.body as usize, |plain| {
            plain.extend_from_slice(&behind[texts..]);
            Self(ThinArc::from_header_and_slice(head.twin(None), plain))
        })
    }

    /// One string of the identity.
    pub(super) fn identity_text(&self, of: IdentityText) -> &[u8] {
        let head = self.head();
        let span = head.identity_text(of);
        let Some(cold) = &head.cold else {
            return self.raw(span);
        };
        let before = IdentityText::ALL.iter().take(of as usize);
        let before: u32 = before.map(|of| head.identity_text(*of).len).sum();
        let start = (cold.packed + before) as usize;
        &self.0.slice[start..start + span.len as usize]
    }
}

impl Head {
    fn identity_text(&self, of: IdentityText) -> super::Span {
        match of {
            IdentityText::Name => self.name,
            IdentityText::Namespace => self.namespace,
            IdentityText::Uid => self.uid,
            IdentityText::ResourceVersion => self.resource_version,
        }
    }

    /// The same head for the other form of the object; what is decoded stays where it is.
    pub(super) fn twin(&self, cold: Option<Box<Cold>>) -> Self {
        Self {
            cold,
            typed: TypedSlot::default(),
            ..*self
        }
    }
}

impl fmt::Debug for Press {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Press")
            .field("dictionary", &self.dictionary)
            .finish_non_exhaustive()
    }
}
