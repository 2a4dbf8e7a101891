//! A dictionary of what objects of one kind repeat, and compression with it.
//!
//! ```text
//! samples ─of_samples─▶ Dictionary ─compress─▶ packed bytes ─inflated─▶ the same bytes again
//! ```
//!
//! There are two. zstd's is trained, and leaves the least; it is C code, compiled in with the feature
//! `compressed` only. LZ4's is a part of the samples themselves; it is there always, and leaves more.
//!
//! INVARIANT: inflated bytes were compressed here, so their length is known and it cannot fail.

use std::cell::RefCell;
use std::fmt;

use lz4_flex::block::{
    compress_into_with_dict, decompress_into_with_dict, get_maximum_output_size,
};
#[cfg(feature = "compressed")]
use zstd::{
    dict::{DecoderDictionary, EncoderDictionary, from_samples},
    zstd_safe::{CCtx, DCtx, compress_bound},
};

/// Higher levels leave 1 to 3 % less, for half as much processor time again.
#[cfg(feature = "compressed")]
const LEVEL: i32 = 1;
/// BOUND: room that is kept for the next object after a large one.
pub(super) const SCRATCH_BYTES: usize = 1 << 20;
/// BOUND: bytes of a dictionary of LZ4, which is read again for each object that is compressed.
const LZ4_BYTES: usize = 16 << 10;
/// BOUND: bytes of one sample in it, so that there are several.
const LZ4_SAMPLE_BYTES: usize = 4 << 10;

thread_local! {
    // The room for inflated bytes: one a thread that reads.
    static PLAIN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    // A context is a few hundred kilobytes of tables that any inflation can use.
    #[cfg(feature = "compressed")]
    static INFLATING: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

/// The content that objects of one kind have in common, written once.
pub struct Dictionary(Content);

enum Content {
    Lz4(Box<[u8]>),
    #[cfg(feature = "compressed")]
    Zstd {
        encoder: EncoderDictionary<'static>,
        decoder: DecoderDictionary<'static>,
        bytes: usize,
    },
}

/// Working memory of compressions, used again for each.
pub(super) struct Context {
    #[cfg(feature = "compressed")]
    zstd: CCtx<'static>,
}

impl Context {
    pub(super) fn new() -> Self {
        Self {
            #[cfg(feature = "compressed")]
            zstd: CCtx::create(),
        }
    }
}

impl Dictionary {
    /// A dictionary of at most `size` bytes; `None` if the samples are too few or have too little in common.
    pub(super) fn of_samples(samples: &[&[u8]], size: usize) -> Option<Self> {
        #[cfg(feature = "compressed")]
        {
            let content = from_samples(samples, size).ok()?;
            Some(Self(Content::Zstd {
                encoder: EncoderDictionary::try_copy(&content, LEVEL).ok()?,
                decoder: DecoderDictionary::try_copy(&content).ok()?,
                bytes: content.len(),
            }))
        }
        #[cfg(not(feature = "compressed"))]
        Self::of_some(samples, size)
    }

    /// A dictionary for LZ4: the beginnings of some samples.
    pub(super) fn of_some(samples: &[&[u8]], size: usize) -> Option<Self> {
        let size = size.min(LZ4_BYTES);
        let step = (samples.len() * LZ4_SAMPLE_BYTES / LZ4_BYTES).max(1);
        let mut content = Vec::with_capacity(size);
        for sample in samples.iter().step_by(step) {
            let room = size - content.len();
            let length = sample.len().min(LZ4_SAMPLE_BYTES).min(room);
            content.extend_from_slice(&sample[..length]);
        }
        (!content.is_empty()).then(|| Self(Content::Lz4(content.into())))
    }

    /// Compresses `plain` into `packed`, which has room for `more` bytes behind it then; returns its length.
    pub(super) fn compress(
        &self,
        context: &mut Context,
        plain: &[u8],
        packed: &mut Vec<u8>,
        more: usize,
    ) -> Option<usize> {
        match &self.0 {
            Content::Lz4(content) => {
                let _ = context;
                let most = get_maximum_output_size(plain.len());
                packed.reserve(most + more);
                packed.resize(most, 0);
                let written = compress_into_with_dict(plain, packed, content).ok()?;
                packed.truncate(written);
                Some(written)
            }
            #[cfg(feature = "compressed")]
            Content::Zstd { encoder, .. } => {
                packed.reserve(compress_bound(plain.len()) + more);
                let encoder = encoder.as_cdict();
                let zstd = &mut context.zstd;
                zstd.compress_using_cdict(packed, plain, encoder).ok()
            }
        }
    }

    /// Runs `read` on the bytes that were compressed, `length` of them.
    pub(super) fn inflated<R>(
        &self,
        packed: &[u8],
        length: usize,
        read: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> R {
        PLAIN.with_borrow_mut(|plain| {
            plain.clear();
            let found = match &self.0 {
                Content::Lz4(content) => {
                    plain.resize(length, 0);
                    decompress_into_with_dict(packed, plain, content).ok()
                }
                #[cfg(feature = "compressed")]
                Content::Zstd { decoder, .. } => INFLATING.with_borrow_mut(|context| {
                    plain.reserve(length);
                    let decoder = decoder.as_ddict();
                    context.decompress_using_ddict(plain, packed, decoder).ok()
                }),
            };
            assert_eq!(found, Some(length), "memory holds what was compressed here");
            let read = read(plain);
            plain.clear();
            plain.shrink_to(SCRATCH_BYTES);
            read
        })
    }

    fn length(&self) -> usize {
        match &self.0 {
            Content::Lz4(content) => content.len(),
            #[cfg(feature = "compressed")]
            Content::Zstd { bytes, .. } => *bytes,
        }
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dictionary")
            .field("bytes", &self.length())
            .finish_non_exhaustive()
    }
}
