//! Settings: file < environment < flags.
