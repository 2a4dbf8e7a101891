//! Vocabulary of Kubernetes' list and watch, without runtime and without I/O.
