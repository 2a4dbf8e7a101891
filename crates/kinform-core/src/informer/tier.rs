//! The cold tier of a store: what is kept of its objects compressed, and when that is learnt anew.
//!
//! ```text
//! first objects ─samples─▶ Training ─run, elsewhere─▶ Trained ─▶ Press ─keep(object)─▶ cold twin, for the store
//!       ▲                                                          └ what is left grew by half ─┐
//!       └───────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The machine says when there is enough to learn from; whoever drives it runs the training where it disturbs
//! nobody, and tells what came of it. Until then objects are stored as they came. A server lists by name, so the
//! first objects are those of the first namespaces: if later ones have less in common with them, the tier learns
//! again. Objects keep the dictionary that they were packed with.
//!
//! Upstream counterpart: none.

use std::sync::Arc;

use crate::object::Object;
use crate::object::cold::{Press, SAMPLE_BYTES};
use crate::object::dictionary::Dictionary;

/// Objects that a dictionary is learnt from: four times as many gained 1 % and cost four times the time.
const SAMPLES: usize = 256;
/// So few do, once a list has ended.
const FEW_SAMPLES: usize = 32;
/// BOUND: bytes that are learnt from: as much of 64 objects as a training looks at, however large they are.
const SAMPLED_BYTES: usize = 4 << 20;
/// Objects over which it is measured what is left of them.
const WINDOW: usize = 1024;
/// BOUND: trainings, and thus dictionaries held, for a kind whose objects have nothing in common.
const MAX_TRAININGS: usize = 16;

/// Bytes of a dictionary: zstd's has 64 KB of content, and tables to write and read with it.
const DICTIONARY_HELD: usize = if cfg!(feature = "compressed") {
    256
} else {
    16
} << 10;
/// Bytes of the working memory of a writer and of the threads that read.
const CONTEXTS_HELD: usize = if cfg!(feature = "compressed") {
    768
} else {
    64
} << 10;

/// Bytes of compression with its first dictionary.
pub(super) const FIRST_HELD: usize = DICTIONARY_HELD + CONTEXTS_HELD;

/// Keeps the objects of one store compressed.
#[derive(Debug, Default)]
pub struct Tier {
    stage: Stage,
    press: Option<Press>,
    trainings: usize,
    window: Window,
    /// It learns from few objects, where waiting for more would cost the memory that it is to save.
    is_eager: bool,
}

#[derive(Debug)]
enum Stage {
    Sampling(Samples),
    Due(Samples),
    Training,
    Settled,
}

#[derive(Debug, Default)]
struct Samples {
    objects: Vec<Object>,
    bytes: usize,
}

/// The compression ratio of recent objects.
#[derive(Debug, Default)]
struct Window {
    objects: usize,
    plain: usize,
    packed: usize,
    // The least part that was left of a window since the last training, in thousandths.
    best: Option<usize>,
}

/// Objects to learn from: to be [run](Self::run) beside what must not wait.
#[derive(Debug)]
pub struct Training(Samples);

/// The outcome of a training.
#[derive(Debug)]
pub struct Trained(Option<Arc<Dictionary>>);

impl Tier {
    /// Nothing is learnt yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A tier for a store that has `count` objects already: it learns from some of them, at equal
    /// distances, and from those that come if they are too few.
    #[must_use]
    pub fn over<'a>(objects: impl Iterator<Item = &'a Object>, count: usize) -> Self {
        let mut tier = Self {
            is_eager: true,
            ..Self::default()
        };
        let step = (count / SAMPLES).max(1);
        for object in objects.step_by(step).take(SAMPLES) {
            if let Stage::Sampling(samples) = &mut tier.stage {
                samples.add(object.thawed().into_owned());
            }
        }
        tier.stage.end_sampling(FEW_SAMPLES);
        tier
    }

    /// Returns whether this number of objects is enough to learn from.
    #[must_use]
    pub fn can_learn_from(objects: usize) -> bool {
        objects >= FEW_SAMPLES
    }

    /// Returns the packed form of an object that is stored already, once there is a dictionary.
    pub fn pack(&mut self, object: &Object) -> Option<Object> {
        self.press.as_mut()?.pack(object)
    }

    /// Returns whether objects are compressed from now on.
    #[must_use]
    pub fn is_learnt(&self) -> bool {
        self.press.is_some()
    }

    /// Returns whether objects had too little in common, as far as was tried.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.press.is_none() && self.trainings > 0
    }

    /// Bytes of the dictionaries, and of what compression works with: an estimate.
    #[must_use]
    pub fn held_size(&self) -> usize {
        match self.is_learnt() {
            true => self.trainings * DICTIONARY_HELD + CONTEXTS_HELD,
            false => 0,
        }
    }

    /// Returns the packed form to store in an object's place; `None` if it is stored as it is.
    pub fn keep(&mut self, object: &Object) -> Option<Object> {
        self.stage.sample(object);
        if self.is_eager {
            self.stage.end_sampling(FEW_SAMPLES);
        }
        let packed = self.press.as_mut()?.pack(object);
        let kept = packed.as_ref().unwrap_or(object);
        if self.window.is_worse(object.heap_size(), kept.heap_size())
            && matches!(self.stage, Stage::Settled)
            && self.trainings < MAX_TRAININGS
        {
            self.stage = Stage::default();
        }
        packed
    }

    /// A list has ended: what there is may be all that there will be.
    pub fn list_ended(&mut self) {
        self.stage.end_sampling(FEW_SAMPLES);
    }

    /// Returns the training, once; its outcome is passed to [`trained`](Self::trained).
    pub fn training(&mut self) -> Option<Training> {
        let stage = std::mem::replace(&mut self.stage, Stage::Training);
        match stage {
            Stage::Due(samples) => Some(Training(samples)),
            other => {
                self.stage = other;
                None
            }
        }
    }

    /// Takes what came of a training. Whether this was the first: then what is stored was not packed yet.
    pub fn trained(&mut self, trained: Trained) -> bool {
        self.trainings += 1;
        self.window = Window::default();
        let was_first = self.press.is_none();
        let Trained(dictionary) = trained;
        let is_learnt = dictionary.is_some();
        if let Some(dictionary) = dictionary {
            self.press = Some(Press::new(dictionary));
        }
        // Other objects may have more in common.
        self.stage = match is_learnt || self.trainings >= MAX_TRAININGS {
            true => Stage::Settled,
            false => Stage::default(),
        };
        was_first && is_learnt
    }
}

impl Training {
    /// Learns; some 150 milliseconds of processor time.
    #[must_use]
    pub fn run(self) -> Trained {
        Trained(Dictionary::train(&self.0.objects).map(Arc::new))
    }
}

impl Trained {
    /// That nothing came of it.
    #[must_use]
    pub fn nothing() -> Self {
        Self(None)
    }
}

impl Default for Stage {
    fn default() -> Self {
        Self::Sampling(Samples::default())
    }
}

impl Stage {
    fn sample(&mut self, object: &Object) {
        let Self::Sampling(samples) = self else {
            return;
        };
        samples.add(object.clone());
        let enough = match samples.bytes >= SAMPLED_BYTES {
            true => 1,
            false => SAMPLES,
        };
        self.end_sampling(enough);
    }

    fn end_sampling(&mut self, enough: usize) {
        if let Self::Sampling(samples) = self
            && samples.objects.len() >= enough
        {
            *self = Self::Due(std::mem::take(samples));
        }
    }
}

impl Samples {
    fn add(&mut self, object: Object) {
        self.bytes += object.heap_size().min(SAMPLE_BYTES);
        self.objects.push(object);
    }
}

impl Window {
    /// Counts an object; whether a window has ended of which half as much again is left as of the best one.
    fn is_worse(&mut self, plain: usize, packed: usize) -> bool {
        self.objects += 1;
        self.plain += plain;
        self.packed += packed;
        if self.objects < WINDOW {
            return false;
        }
        let left = self.packed.saturating_mul(1000) / self.plain.max(1);
        let best = self.best.map_or(left, |best| best.min(left));
        *self = Self {
            best: Some(best),
            ..Self::default()
        };
        left > best + best / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::projection::Projection;

    fn object(name: usize, text: &str) -> Object {
        let json = format!(
            r#"{{"metadata":{{"name":"o{name}","uid":"u{name}"}},"data":{{"of":{name},"all":"{text}"}}}}"#
        );
        Object::from_json(json.as_bytes(), &Projection::new()).unwrap()
    }

    fn learn(tier: &mut Tier) -> bool {
        let training = tier.training().unwrap();
        assert!(tier.training().is_none(), "it is asked for once");
        tier.trained(training.run())
    }

    #[test]
    fn objects_are_packed_from_the_first_training_on() {
        let mut tier = Tier::new();
        for name in 0..SAMPLES {
            assert!(tier.training().is_none());
            assert!(
                tier.keep(&object(name, &"what all of them repeat ".repeat(30)))
                    .is_none()
            );
        }
        assert!(learn(&mut tier));
        let one = object(7, &"what all of them repeat ".repeat(30));
        let cold = tier.keep(&one).unwrap();
        assert!(cold.is_cold() && cold.heap_size() < one.heap_size() / 2);
        assert!(tier.training().is_none());
    }

    #[test]
    fn a_small_list_is_learnt_from_when_it_ends() {
        let mut tier = Tier::new();
        for name in 0..FEW_SAMPLES - 1 {
            tier.keep(&object(name, &"few, but alike ".repeat(30)));
        }
        tier.list_ended();
        assert!(tier.training().is_none(), "too few");
        tier.keep(&object(99, &"few, but alike ".repeat(30)));
        tier.list_ended();
        assert!(learn(&mut tier));
    }

    #[test]
    fn large_objects_are_learnt_from_sooner_and_packed() {
        let mut tier = Tier::new();
        let large = |name| object(name, &"large ".repeat(SAMPLE_BYTES / 6));
        for name in 0..SAMPLED_BYTES / SAMPLE_BYTES {
            assert!(tier.training().is_none());
            tier.keep(&large(name));
        }
        assert!(learn(&mut tier));
        let cold = tier.keep(&large(7)).unwrap();
        assert!(cold.heap_size() < SAMPLE_BYTES / 8);
    }

    #[test]
    fn other_objects_than_at_first_are_learnt_anew() {
        let mut tier = Tier::new();
        for name in 0..SAMPLES {
            tier.keep(&object(
                name,
                &"the first namespaces are like this ".repeat(30),
            ));
        }
        assert!(learn(&mut tier));
        for name in 0..2 * WINDOW {
            tier.keep(&object(
                name,
                &"the first namespaces are like this ".repeat(30),
            ));
        }
        assert!(tier.training().is_none(), "the same go on");
        // Texts of their own, in which nothing is repeated: less is left out of these.
        let mut state = 7u64;
        let mut other = |name| {
            let letters = (0..30).map(|_| {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                char::from(b'a' + (state >> 60) as u8)
            });
            object(name, &letters.collect::<String>())
        };
        let mut asked = 0;
        for name in 0..2 * WINDOW + 2 * SAMPLES {
            tier.keep(&other(name));
            if let Some(training) = tier.training() {
                asked += 1;
                assert!(!tier.trained(training.run()), "what is stored is packed");
            }
        }
        assert_eq!(asked, 1);
    }

    #[test]
    fn what_has_nothing_in_common_is_given_up() {
        let mut tier = Tier::new();
        for _ in 0..MAX_TRAININGS {
            for name in 0..SAMPLES {
                assert!(tier.keep(&object(name, "x")).is_none());
            }
            assert!(tier.training().is_some());
            assert!(!tier.trained(Trained::nothing()));
        }
        tier.keep(&object(1, "x"));
        tier.list_ended();
        assert!(tier.training().is_none());
    }
}
