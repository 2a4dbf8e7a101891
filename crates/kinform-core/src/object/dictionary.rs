//! A dictionary of what objects of one kind repeat, and compression with it.
//!
//! ```text
//! samples ─of_samples─▶ Dictionary ─compress─▶ packed bytes ─inflated─▶ the same bytes again
//! ```
//!
//! Compression is zstd's, which is C code: it is compiled in with the feature `compressed` only. Without it there is no
//! value of a [`Dictionary`], so that no object is ever cold, and everything else is compiled as it is.
//!
//! INVARIANT: inflated bytes were compressed here, so their length is known and it cannot fail.

use std::fmt;

#[cfg(feature = "compressed")]
use {
    std::cell::RefCell,
    zstd::dict::{DecoderDictionary, EncoderDictionary, from_samples},
    zstd::zstd_safe::{CCtx, DCtx, compress_bound},
};

/// Higher levels leave 1 to 3 % less, for half as much processor time again.
#[cfg(feature = "compressed")]
const LEVEL: i32 = 1;
/// BOUND: room that is kept for the next object after a large one.
pub(super) const SCRATCH_BYTES: usize = 1 << 20;

#[cfg(feature = "compressed")]
thread_local! {
    // A context is a few hundred kilobytes of tables that any inflation can use: one a thread that reads.
    static INFLATING: RefCell<(DCtx<'static>, Vec<u8>)> = RefCell::new((DCtx::create(), Vec::new()));
}

/// The content that objects of one kind have in common, written once.
pub struct Dictionary {
    #[cfg(feature = "compressed")]
    encoder: EncoderDictionary<'static>,
    #[cfg(feature = "compressed")]
    decoder: DecoderDictionary<'static>,
    #[cfg(feature = "compressed")]
    bytes: usize,
    #[cfg(not(feature = "compressed"))]
    none: std::convert::Infallible,
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

#[cfg(feature = "compressed")]
impl Dictionary {
    /// A dictionary of at most `size` bytes; `None` if the samples are too few or have too little in common.
    pub(super) fn of_samples(samples: &[&[u8]], size: usize) -> Option<Self> {
        let content = from_samples(samples, size).ok()?;
        Some(Self {
            encoder: EncoderDictionary::try_copy(&content, LEVEL).ok()?,
            decoder: DecoderDictionary::try_copy(&content).ok()?,
            bytes: content.len(),
        })
    }

    /// Compresses `plain` into `packed`, which has room for `more` bytes behind it then; returns its length.
    pub(super) fn compress(
        &self,
        context: &mut Context,
        plain: &[u8],
        packed: &mut Vec<u8>,
        more: usize,
    ) -> Option<usize> {
        packed.reserve(compress_bound(plain.len()) + more);
        let encoder = self.encoder.as_cdict();
        let written = context.zstd.compress_using_cdict(packed, plain, encoder);
        written.ok()
    }

    /// Runs `read` on the bytes that were compressed, `length` of them.
    pub(super) fn inflated<R>(
        &self,
        packed: &[u8],
        length: usize,
        read: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> R {
        INFLATING.with_borrow_mut(|(context, plain)| {
            plain.clear();
            plain.reserve(length);
            let found = context.decompress_using_ddict(plain, packed, self.decoder.as_ddict());
            assert_eq!(
                found.ok(),
                Some(length),
                "memory holds what was compressed here"
            );
            let read = read(plain);
            plain.clear();
            plain.shrink_to(SCRATCH_BYTES);
            read
        })
    }

    fn length(&self) -> usize {
        self.bytes
    }
}

#[cfg(not(feature = "compressed"))]
impl Dictionary {
    pub(super) fn of_samples(_: &[&[u8]], _: usize) -> Option<Self> {
        None
    }

    pub(super) fn compress(
        &self,
        _: &mut Context,
        _: &[u8],
        _: &mut Vec<u8>,
        _: usize,
    ) -> Option<usize> {
        match self.none {}
    }

    pub(super) fn inflated<R>(&self, _: &[u8], _: usize, _: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        match self.none {}
    }

    fn length(&self) -> usize {
        match self.none {}
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dictionary")
            .field("bytes", &self.length())
            .finish_non_exhaustive()
    }
}
