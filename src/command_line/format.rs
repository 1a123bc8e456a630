//! `ottla storage format`: data directories get their identity, and the metadata
//! directory what a new cluster begins with.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::CommandError;
use super::release::{level_of_release, name_of_level};
use crate::cluster::METADATA_VERSION;
use crate::config::Config;
use crate::controller::bootstrap::{self, Levels};
use crate::log::meta_properties::MetaProperties;
use crate::raft::{ReplicaKey, Voter, VoterEndpoint, VoterSet};
use crate::sys::disk::Disk;
use crate::sys::random::Random;
use crate::types::{BrokerId, DirectoryId, Timestamp, parse_uuid};

/// Levels of `kraft.version` that a voter formatted here can work with.
const KRAFT_VERSIONS: (i16, i16) = (0, 1);

#[derive(Debug, Args)]
pub struct Arguments {
    /// Properties file of the node.
    #[arg(short, long)]
    pub config: Option<PathBuf>,
    /// The id of the cluster; `storage random-uuid` makes a new one.
    #[arg(short = 't', long)]
    cluster_id: String,
    /// Leaves directories alone that are formatted already, instead of failing.
    #[arg(short = 'g', long)]
    ignore_formatted: bool,
    /// The release whose feature levels the cluster begins with, such as 4.1 or 4.1-IV0.
    #[arg(short = 'r', long)]
    release_version: Option<String>,
    /// Level of one feature, such as kraft.version=1; may be given repeatedly.
    #[arg(short = 'f', long = "feature", value_name = "FEATURE=LEVEL")]
    features: Vec<String>,
    /// This controller is the only voter of a quorum that others can join.
    #[arg(short = 's', long, conflicts_with_all = ["no_initial_controllers", "initial_controllers"])]
    standalone: bool,
    /// This node joins a quorum that is formatted elsewhere.
    #[arg(short = 'N', long, conflicts_with = "initial_controllers")]
    no_initial_controllers: bool,
    /// The first voters, as id@host:port:directory between commas.
    #[arg(short = 'I', long, value_name = "VOTERS")]
    initial_controllers: Option<String>,
    /// Not served yet: passwords for SCRAM.
    #[arg(short = 'S', long)]
    add_scram: Vec<String>,
}

/// The doors to the machine.
pub struct Machine {
    /// Where the directories are.
    pub disk: Arc<dyn Disk>,
    /// For ids of directories.
    pub random: Random,
    /// Now.
    pub now: Timestamp,
}

pub fn run(
    arguments: &Arguments,
    config: &Config,
    machine: &Machine,
    out: &mut dyn Write,
) -> Result<u8, CommandError> {
    if !arguments.add_scram.is_empty() {
        return refuse("SCRAM is not served yet, so --add-scram cannot be used.");
    }
    let voters = voters(arguments, config, &machine.random)?;
    // Without fixed voters a quorum is dynamic, wherever its first voters are told.
    let levels = levels(arguments, config.node().voters.is_empty())?;
    let new = unformatted(arguments, config, &*machine.disk)?;
    if new.is_empty() {
        writeln!(out, "All of the log directories are already formatted.")?;
        return Ok(0);
    }
    let release = name_of_level(levels.get(METADATA_VERSION).copied().unwrap_or(0));
    for dir in new {
        let kind = kind(&dir, config, voters.as_ref());
        let name = dir.display();
        writeln!(out, "Formatting {kind} {name} with {METADATA_VERSION} {release}.")?;
        format_one(&dir, arguments, config, machine, (&levels, voters.as_ref()))?;
    }
    Ok(0)
}

fn refuse<T>(text: impl Into<String>) -> Result<T, CommandError> {
    Err(CommandError::Refused(text.into()))
}

fn format_one(
    dir: &Path,
    arguments: &Arguments,
    config: &Config,
    machine: &Machine,
    (levels, voters): (&Levels, Option<&VoterSet>),
) -> Result<(), CommandError> {
    let (node, me) = (config.node(), BrokerId(config.node().id));
    let is_metadata = dir == node.metadata_log_dir;
    machine.disk.create_dir_all(dir)?;
    let as_voter = voters.filter(|_| is_metadata).and_then(|voters| voters.get(me)?.key.directory);
    if is_metadata && node.is_controller {
        bootstrap::format_metadata(&machine.disk, dir, levels, voters, machine.now)
            .map_err(|error| CommandError::Refused(error.to_string()))?;
    }
    let identity = MetaProperties {
        cluster_id: arguments.cluster_id.clone(),
        node_id: me,
        directory_id: Some(as_voter.unwrap_or_else(|| machine.random.uuid())),
    };
    Ok(identity.write(&*machine.disk, dir)?)
}

fn kind(dir: &Path, config: &Config, voters: Option<&VoterSet>) -> &'static str {
    let node = config.node();
    match voters {
        _ if dir != node.metadata_log_dir => "data directory",
        None => "metadata directory",
        Some(voters) if voters.get(BrokerId(node.id)).is_some() => {
            "dynamic metadata voter directory"
        }
        Some(_) => "dynamic metadata directory",
    }
}

/// Every directory of the node once, sorted.
pub fn directories(config: &Config) -> BTreeSet<PathBuf> {
    let node = config.node();
    node.log_dirs.iter().chain([&node.metadata_log_dir]).cloned().collect()
}

/// Directories without identity; what the others say must fit.
fn unformatted(
    arguments: &Arguments,
    config: &Config,
    disk: &dyn Disk,
) -> Result<Vec<PathBuf>, CommandError> {
    let mut new = Vec::new();
    for dir in directories(config) {
        let known = MetaProperties::read(disk, &dir)
            .map_err(|error| CommandError::Refused(error.to_string()))?;
        let name = dir.display().to_string();
        match known {
            None => new.push(dir),
            Some(known) if known.cluster_id != arguments.cluster_id => {
                return refuse(format!(
                    "Invalid cluster.id in: {name}/meta.properties. Expected {}, but read {}",
                    arguments.cluster_id, known.cluster_id
                ));
            }
            Some(known) if known.node_id.0 != config.node().id => {
                return refuse(format!(
                    "Invalid node.id in: {name}/meta.properties. Expected {}, but read {}",
                    config.node().id,
                    known.node_id
                ));
            }
            Some(_) if !arguments.ignore_formatted => {
                return refuse(format!(
                    "Log directory {name} is already formatted. Use --ignore-formatted to ignore \
                     this directory and format the others."
                ));
            }
            Some(_) => {}
        }
    }
    Ok(new)
}

/// The levels that are asked for, filled up with those of a new cluster.
fn levels(arguments: &Arguments, dynamic: bool) -> Result<Levels, CommandError> {
    let mut asked = Levels::new();
    for text in &arguments.features {
        let parts = text.split_once('=').and_then(|(name, level)| {
            Some((name.trim().to_owned(), level.trim().parse::<i16>().ok()?))
        });
        let Some((name, level)) = parts else {
            return refuse(format!("Can't parse feature=level string {text}"));
        };
        asked.insert(name, level);
    }
    if let Some(release) = &arguments.release_version {
        if asked.contains_key(METADATA_VERSION) {
            return refuse(
                "Use --release-version instead of --feature metadata.version=X to avoid ambiguity.",
            );
        }
        let Some(level) = level_of_release(release) else {
            return refuse(format!("Version {release} is not a valid metadata.version"));
        };
        asked.insert(METADATA_VERSION.to_owned(), level);
    }
    bootstrap::levels(&asked, dynamic).map_err(|error| CommandError::Refused(error.to_string()))
}

/// The voters that are to stand in the metadata log, if they do.
fn voters(
    arguments: &Arguments,
    config: &Config,
    random: &Random,
) -> Result<Option<VoterSet>, CommandError> {
    let node = config.node();
    let wants_voters = arguments.standalone || arguments.initial_controllers.is_some();
    if !node.voters.is_empty() && wants_voters {
        return refuse(
            "You cannot specify controller.quorum.voters and format the node with \
             --initial-controllers or --standalone. If you want to use dynamic quorum, please remove \
             controller.quorum.voters and specify controller.quorum.bootstrap.servers instead.",
        );
    }
    let listener = node.controller_listener_names.first().cloned().unwrap_or_default();
    if let Some(text) = &arguments.initial_controllers {
        return parse_voters(text, &listener).map(Some);
    }
    if arguments.standalone {
        if !node.is_controller {
            return refuse("You can only use --standalone on a controller.");
        }
        let endpoint = node.advertised_controller_listeners.first();
        let (host, port) = endpoint.map_or(("localhost", 0), |endpoint| {
            (endpoint.host.as_deref().unwrap_or("localhost"), endpoint.port)
        });
        let me = voter(BrokerId(node.id), host, port, random.uuid(), &listener);
        return Ok(Some(VoterSet::new([me])));
    }
    if node.is_controller && node.voters.is_empty() && !arguments.no_initial_controllers {
        return refuse(
            "Because controller.quorum.voters is not set on this controller, you must specify one of \
             the following: --standalone, --initial-controllers, or --no-initial-controllers.",
        );
    }
    Ok(None)
}

fn voter(id: BrokerId, host: &str, port: u16, directory: DirectoryId, listener: &str) -> Voter {
    let endpoint = VoterEndpoint { name: listener.to_owned(), host: host.to_owned(), port };
    Voter {
        key: ReplicaKey { id, directory: Some(directory) },
        endpoints: vec![endpoint],
        kraft_versions: KRAFT_VERSIONS,
    }
}

/// Reads `id@host:port:directory,…`.
fn parse_voters(text: &str, listener: &str) -> Result<VoterSet, CommandError> {
    let parse = |entry: &str| {
        let (id, rest) = entry.split_once('@')?;
        let (address, directory) = rest.rsplit_once(':')?;
        let (host, port) = address.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let id = id.parse().ok().filter(|id| *id >= 0).filter(|_| !host.is_empty())?;
        Some(voter(BrokerId(id), host, port.parse().ok()?, parse_uuid(directory)?, listener))
    };
    let mut voters = Vec::new();
    for entry in text.split(',') {
        match parse(entry.trim()) {
            Some(voter) => voters.push(voter),
            None => {
                return refuse(format!(
                    "{entry} is not of the form id@hostname:port:directory, the directory being an id"
                ));
            }
        }
    }
    let count = voters.len();
    let set = VoterSet::new(voters);
    if set.len() != count {
        return refuse("A voter is listed twice in --initial-controllers.");
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::sys::memory_disk::MemoryDisk;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    const VOTERS: &str = "controller.quorum.voters";

    /// Formats with these flags a node with these settings; output or refusal.
    fn format(disk: &MemoryDisk, flags: &str, settings: &[(&str, &str)]) -> Result<String, String> {
        let line = Line::try_parse_from(
            ["format", "-t", "id"].into_iter().chain(flags.split_whitespace()),
        );
        let machine =
            Machine { disk: disk.shared(), random: Random::from_seed(1), now: Timestamp(1000) };
        let config = Config::from_overrides(settings).unwrap();
        let mut out = Vec::new();
        run(&line.map_err(|e| e.to_string())?.arguments, &config, &machine, &mut out)
            .map_err(|error| error.to_string())?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn every_directory_is_formatted_once() {
        let disk = MemoryDisk::new();
        let dirs = [("log.dirs", "/a,/b"), ("metadata.log.dir", "/c")];
        let out = format(&disk, "--standalone", &dirs).unwrap();
        assert_eq!(
            out,
            "Formatting data directory /a with metadata.version 4.4-IV2.\n\
             Formatting data directory /b with metadata.version 4.4-IV2.\n\
             Formatting dynamic metadata voter directory /c with metadata.version 4.4-IV2.\n"
        );
        let identity =
            |dir| MetaProperties::read(&*disk.shared(), Path::new(dir)).unwrap().unwrap();
        assert_eq!((identity("/a").cluster_id.as_str(), identity("/a").node_id.0), ("id", 1));
        assert_ne!(identity("/a").directory_id, identity("/b").directory_id);
        let snapshot = "/c/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint";
        assert!(disk.shared().exists(Path::new(snapshot)));

        let again = format(&disk, "--standalone", &dirs).unwrap_err();
        assert!(again.starts_with("Log directory /a is already formatted."), "{again}");
        let out = format(&disk, "--standalone --ignore-formatted", &dirs).unwrap();
        assert_eq!(out, "All of the log directories are already formatted.\n");
        let other = format(&disk, "-s -g", &[("log.dirs", "/a"), ("node.id", "7")]).unwrap_err();
        assert!(other.contains("Expected 7, but read 1"), "{other}");
    }

    #[test]
    fn voters_are_told_in_one_place() {
        let disk = MemoryDisk::new();
        let fixed = [(VOTERS, "1@localhost:9093"), ("log.dirs", "/d")];
        assert!(format(&disk, "-s", &fixed).unwrap_err().starts_with("You cannot specify"));
        let none = [("log.dirs", "/d")];
        assert!(format(&disk, "", &none).unwrap_err().contains("must specify one of"));
        assert!(format(&disk, "-s -N", &none).unwrap_err().contains("cannot be used with"));
        let out = format(&disk, "", &fixed).unwrap();
        assert!(out.starts_with("Formatting metadata directory /d"), "{out}");
        let first = "-I 1@host:9093:JEXY6aqzQY-32P5TStzaFg,2@[::1]:9093:MvDxzVmcRsaTz33bUuRU6A";
        let out = format(&disk, first, &[("log.dirs", "/e")]).unwrap();
        assert!(out.starts_with("Formatting dynamic metadata voter directory /e"), "{out}");
        let identity = MetaProperties::read(&*disk.shared(), Path::new("/e")).unwrap().unwrap();
        assert_eq!(identity.directory_id, parse_uuid("JEXY6aqzQY-32P5TStzaFg"));
        assert!(format(&disk, "-I 1@host:9093", &[("log.dirs", "/f")]).is_err());
    }

    #[test]
    fn levels_are_those_of_a_release_or_asked_for() {
        let disk = MemoryDisk::new();
        let try_with = |flags: &str| format(&disk, flags, &[("log.dirs", "/x")]);
        assert!(try_with("-s -r 9.9").unwrap_err().contains("9.9 is not a valid"));
        assert!(try_with("-s -f group.version").unwrap_err().contains("Can't parse"));
        assert!(try_with("-s -f no.version=1").unwrap_err().contains("Unsupported feature"));
        assert!(try_with("-s -r 4.0 -f metadata.version=25").unwrap_err().contains("ambiguity"));
        assert!(try_with("-s -S SCRAM-SHA-256=[name=a,password=b]").unwrap_err().contains("SCRAM"));
        assert!(try_with("-s -r 4.0").unwrap().ends_with("metadata.version 4.0-IV3.\n"));
    }
}
