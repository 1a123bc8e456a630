//! Which code a client gets for an error of the layers below. `[P]`
//!
//! Each mapping is one `match` without a default: a new kind of error does not
//! compile until it has a code.
