//! Why a broker does not start.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::controller::bootstrap::FormatError;
use crate::controller::{ApiError, ControllerStartError};
use crate::log::meta_properties::MetaPropertiesError;
use crate::log::store::StoreError;
use crate::network::BindError;

/// Why a broker does not start. Printed, it tells a user what to do.
#[derive(Debug, Error)]
pub enum StartError {
    /// The configuration asks for what is not there yet.
    #[error("not served yet: {0}")]
    Unserved(String),
    /// A listener wants protection that is not there yet.
    #[error("not served yet: listener {listener} uses {protocol}; only PLAINTEXT is")]
    UnservedProtocol {
        /// The listener's name.
        listener: String,
        /// `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`.
        protocol: &'static str,
    },
    /// An address cannot be had.
    #[error("{0}")]
    Bind(String),
    /// A directory cannot be formatted.
    #[error("{} cannot be formatted: {source}", .dir.display())]
    Format {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The log directories cannot be used, or the metadata log in them.
    #[error("{0}")]
    Storage(String),
    /// The controller stopped before it began.
    #[error("the controller does not answer: {0}")]
    Controller(String),
    /// The controller does not take the broker.
    #[error("the broker cannot register: {0}")]
    Unregistered(String),
    /// The controller does not unfence the broker in time.
    #[error("the controller keeps the broker fenced")]
    StaysFenced,
    /// A thread or runtime cannot be started.
    #[error("a thread cannot be started: {0}")]
    Thread(#[source] io::Error),
}

/// Errors of inner layers are kept as their text: whoever starts a broker can only
/// tell them to somebody.
macro_rules! told {
    ($($error:ty => $variant:ident;)*) => {
        $(impl From<$error> for StartError {
            fn from(error: $error) -> Self {
                Self::$variant(error.to_string())
            }
        })*
    };
}

told! {
    BindError => Bind;
    StoreError => Storage;
    MetaPropertiesError => Storage;
    FormatError => Storage;
    ControllerStartError => Storage;
    ApiError => Controller;
}
