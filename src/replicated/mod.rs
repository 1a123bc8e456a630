//! replicated
