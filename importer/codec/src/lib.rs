//! Wrappers and cluster codecs.
