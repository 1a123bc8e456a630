//! `ottla storage`: what kafka-storage does.

use std::io::Write;
use std::path::PathBuf;

use clap::Subcommand;

use super::CommandError;
use super::format::{self, Machine, directories};
use crate::config::{Config, Sources};
use crate::log::meta_properties::MetaProperties;
use crate::sys::clock::SystemClock;
use crate::sys::disk::Disk;
use crate::sys::random::Random;
use crate::sys::real_disk::RealDisk;
use crate::types::uuid_text;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Prepares data directories for a node.
    Format(format::Arguments),
    /// Shows what the data directories belong to.
    Info {
        /// Properties file of the node.
        #[arg(short, long)]
        config: Option<PathBuf>,
    },
    /// Prints a random id, for a new cluster.
    RandomUuid,
}

pub fn run(command: Command, out: &mut dyn Write) -> Result<u8, CommandError> {
    match command {
        Command::Format(arguments) => {
            let config = load(arguments.config.clone())?;
            let machine = Machine {
                disk: RealDisk::shared(),
                random: Random::from_system(),
                now: SystemClock::shared().wall(),
            };
            format::run(&arguments, &config, &machine, out)
        }
        Command::Info { config } => info(&load(config)?, &*RealDisk::shared(), out),
        Command::RandomUuid => {
            writeln!(out, "{}", uuid_text(Random::from_system().uuid()))?;
            Ok(0)
        }
    }
}

fn load(file: Option<PathBuf>) -> Result<Config, CommandError> {
    Ok(Config::load(Sources::from_process(file, Vec::new()))?)
}

fn info(config: &Config, disk: &dyn Disk, out: &mut dyn Write) -> Result<u8, CommandError> {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    let mut first: Option<MetaProperties> = None;
    for dir in directories(config) {
        let name = dir.display();
        if !disk.exists(&dir) {
            problems.push(format!("{name} does not exist"));
            continue;
        }
        if disk.list(&dir).is_err() {
            problems.push(format!("{name} is not a directory"));
            continue;
        }
        found.push(name.to_string());
        match (MetaProperties::read(disk, &dir), &first) {
            (Err(error), _) => problems.push(format!("Error loading {error}")),
            (Ok(None), _) => problems.push(format!("{name} is not formatted.")),
            (Ok(Some(read)), None) => first = Some(read),
            (Ok(Some(read)), Some(first)) if read.cluster_id != first.cluster_id => {
                problems.push("Mismatched cluster IDs between storage directories.".into());
            }
            (Ok(Some(read)), Some(first)) if read.node_id != first.node_id => {
                problems.push("Mismatched node IDs between storage directories.".into());
            }
            (Ok(Some(_)), Some(_)) => {}
        }
    }
    list(out, "Found log directory:", "Found log directories:", &found)?;
    if let Some(first) = first {
        let all = first.assignments();
        let all: Vec<_> = all.iter().map(|(key, value)| format!("{key}={value}")).collect();
        writeln!(out, "Found metadata: {{{}}}\n", all.join(", "))?;
    }
    list(out, "Found problem:", "Found problems:", &problems)?;
    Ok(u8::from(!problems.is_empty()))
}

fn list(out: &mut dyn Write, one: &str, many: &str, items: &[String]) -> std::io::Result<()> {
    if items.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", if items.len() == 1 { one } else { many })?;
    for item in items {
        writeln!(out, "  {item}")?;
    }
    writeln!(out)
}
