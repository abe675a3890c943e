//! The one HTTP client stack.
