//! The command line: what `ottla` was asked to do.
//!
//! [`run`] does everything that is not serving, and hands back the configuration
//! of a broker that is to be started. Exit codes: 0 when it went well, 1 when it
//! failed, 2 when it was used wrongly.

mod format;
mod healthcheck;
mod print;
mod release;
mod storage;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::{Config, Sources};

/// A broker that speaks the Kafka protocol.
///
/// Started with a properties file in Kafka's notation, or without one as a
/// single node on port 9092 with its data in ./ottla-data.
#[derive(Debug, Parser)]
#[command(name = "ottla", version = VERSION, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(flatten)]
    settings: Settings,
    #[command(subcommand)]
    command: Option<Command>,
}

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (Kafka 4.4.0)");

/// Where settings come from.
#[derive(Debug, Args)]
struct Settings {
    /// Properties file; KAFKA_... variables go before it.
    file: Option<PathBuf>,
    /// A setting that goes before file and variables; may be given repeatedly.
    #[arg(long = "override", value_name = "KEY=VALUE", value_parser = key_and_value)]
    overrides: Vec<(String, String)>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Prepares and shows data directories, as kafka-storage does.
    #[command(subcommand)]
    Storage(storage::Command),
    /// Shows the settings that a start would have.
    Config(print::Arguments),
    /// Tells by its exit code whether the broker of this machine serves.
    Healthcheck(healthcheck::Arguments),
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().into(), value.into())),
        _ => Err("not of the form KEY=VALUE".into()),
    }
}

impl Settings {
    fn load(self) -> Result<Config, crate::config::ConfigError> {
        Config::load(Sources::from_process(self.file, self.overrides))
    }
}

/// What is left to do.
#[derive(Debug)]
pub enum Action {
    /// Nothing; end with this code.
    Exit(u8),
    /// Start a broker.
    Serve(Box<Config>),
}

/// The failure was told.
const FAILED: Action = Action::Exit(1);

/// Does what the arguments (the program's name first) ask for, up to starting a
/// broker. What there is to tell goes to `out`, failures to `err`.
pub fn run(
    arguments: impl IntoIterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Action {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(refusal) => {
            // Help and version are "refusals" for clap, to the other stream.
            let _ = match refusal.use_stderr() {
                true => write!(err, "{}", refusal.render()),
                false => write!(out, "{}", refusal.render()),
            };
            return Action::Exit(u8::try_from(refusal.exit_code()).unwrap_or(2));
        }
    };
    let done = match arguments.command {
        Some(Command::Storage(command)) => storage::run(command, out),
        Some(Command::Config(arguments)) => print::run(arguments, out),
        Some(Command::Healthcheck(arguments)) => healthcheck::run(arguments, out),
        None => match arguments.settings.load() {
            Ok(config) => return Action::Serve(Box::new(config)),
            Err(error) => Err(error.into()),
        },
    };
    match done {
        Ok(code) => Action::Exit(code),
        Err(error) => {
            let _ = writeln!(err, "{error}");
            FAILED
        }
    }
}

/// Why a command failed, as its user is told.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error(transparent)]
    Config(#[from] crate::config::ConfigError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Refused(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ottla(arguments: &[&str]) -> (Action, String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let all = std::iter::once("ottla").chain(arguments.iter().copied()).map(OsString::from);
        let action = run(all, &mut out, &mut err);
        (action, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    fn code(action: &Action) -> Option<u8> {
        if let Action::Exit(code) = action { Some(*code) } else { None }
    }

    #[test]
    fn without_arguments_a_broker_is_started() {
        let (action, _, err) = ottla(&["--override", "num.partitions=5"]);
        let Action::Serve(config) = action else { panic!("{err}") };
        assert_eq!(config.get(crate::config::keys::NUM_PARTITIONS), 5);
    }

    #[test]
    fn wrong_usage_is_2_and_a_failed_start_1() {
        for wrong in
            [&["--no-such-flag"][..], &["--override", "novalue"], &["storage"], &["config"]]
        {
            let (action, _, err) = ottla(wrong);
            assert_eq!(code(&action), Some(2), "{wrong:?}");
            assert!(!err.is_empty());
        }
        let (action, _, err) = ottla(&["/no/such/file.properties"]);
        assert_eq!(code(&action), Some(1));
        assert!(err.contains("/no/such/file.properties"));
        let (action, _, err) = ottla(&["--override", "num.partitions=none"]);
        assert_eq!(code(&action), Some(1));
        assert_eq!(
            err,
            "--override: Invalid value none for configuration num.partitions: Not a number of type INT\n"
        );
    }

    #[test]
    fn version_and_help_go_out() {
        let (action, out, _) = ottla(&["--version"]);
        assert_eq!(code(&action), Some(0));
        assert!(out.starts_with("ottla "), "{out}");
        let (action, out, _) = ottla(&["storage", "format", "--help"]);
        assert_eq!(code(&action), Some(0));
        assert!(out.contains("--ignore-formatted"), "{out}");
    }

    #[test]
    fn settings_are_printed_with_their_origin() {
        let (action, out, _) =
            ottla(&["config", "--print", "--override", "ssl.key.password=secret"]);
        assert_eq!(code(&action), Some(0));
        let line =
            |key: &str| out.lines().find(|line| line.starts_with(&format!("{key}="))).unwrap();
        assert!(line("num.partitions").ends_with("# default"));
        assert!(line("node.id").ends_with("# no file given"));
        assert!(line("ssl.key.password").starts_with("ssl.key.password=[hidden]"));
        assert!(line("ssl.key.password").ends_with("# --override; does nothing yet"));
        assert!(!out.contains("secret"));
    }

    #[test]
    fn random_ids_are_printed() {
        let (action, out, _) = ottla(&["storage", "random-uuid"]);
        assert_eq!(code(&action), Some(0));
        assert!(crate::types::parse_uuid(out.trim()).is_some(), "{out}");
    }
}
