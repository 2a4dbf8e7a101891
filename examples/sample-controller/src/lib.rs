//! The sample controller.
