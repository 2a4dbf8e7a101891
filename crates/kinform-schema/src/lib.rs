//! The table of Kubernetes' built-in types.
