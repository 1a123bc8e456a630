//! `ottla config --print`: every setting with its value and where that comes from.

use std::io::Write;

use clap::Args;

use super::{CommandError, Settings};
use crate::config::{Scope, Value, table};

#[derive(Debug, Args)]
pub struct Arguments {
    /// Prints every key with its value in force and where it was given.
    #[arg(long, required = true)]
    print: bool,
    #[command(flatten)]
    settings: Settings,
}

pub fn run(arguments: Arguments, out: &mut dyn Write) -> Result<u8, CommandError> {
    let config = arguments.settings.load()?;
    for key in table().of(Scope::Broker) {
        let Some((_, value)) = config.lookup(key.name) else { continue };
        let origin = config.origin(key.name);
        if origin.is_none() && (key.internal || *value == Value::Null) {
            continue;
        }
        let note = if key.effective || origin.is_none() { "" } else { "; does nothing yet" };
        let assignment = format!("{}={value}", key.name);
        writeln!(out, "{assignment:<60} # {}{note}", origin.unwrap_or("default"))?;
    }
    for (key, value, origin) in config.others() {
        // Nobody knows whether such a value is a secret.
        let value = if key.starts_with("listener.name.") { "[hidden]" } else { value };
        let assignment = format!("{key}={value}");
        writeln!(out, "{assignment:<60} # {origin}; not a key of the broker")?;
    }
    Ok(0)
}
