//! The rules of the house that no other tool checks: arrows between layers,
//! purity of files marked `[P]`, a doc at the head of every file, sizes, and
//! nothing left lying about.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What each layer may name. Arrows point down; `broker` and the command line
/// stand on top and may name everything.
const ARROWS: &[(&str, &[&str])] = &[
    (
        "handlers",
        &[
            "protocol",
            "network",
            "coordinator",
            "controller",
            "raft",
            "cluster",
            "partition",
            "log",
            "config",
            "types",
            "sys",
        ],
    ),
    (
        "coordinator",
        &[
            "replicated",
            "partition",
            "network",
            "protocol",
            "cluster",
            "log",
            "config",
            "types",
            "sys",
        ],
    ),
    ("controller", &["replicated", "raft", "cluster", "network", "protocol", "types", "sys"]),
    ("raft", &["log", "network", "protocol", "cluster", "types", "sys"]),
    ("partition", &["log", "network", "protocol", "cluster", "types", "sys"]),
    ("replicated", &["types", "sys"]),
    ("network", &["protocol", "types", "sys"]),
    (
        "config",
        &["controller", "cluster", "protocol", "log", "network", "properties", "types", "sys"],
    ),
    ("log", &["properties", "types", "sys"]),
    ("cluster", &["protocol", "types"]),
    ("protocol", &[]),
    ("properties", &[]),
    ("types", &[]),
    ("sys", &["types"]),
];

/// What a pure file must not name.
const IMPURE: &[&str] = &[
    "tokio::",
    "std::fs",
    "std::net",
    "Instant::now",
    "SystemTime",
    "Mutex",
    "RwLock",
    "mpsc",
    "async fn",
];

/// Lines of a file without its tests; longer ones are named here with a reason.
const LONGEST_FILE: usize = 800;

struct Source {
    /// Path below `src`.
    path: String,
    /// The text up to the first `#[cfg(test)]`.
    code: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&root, &mut files);
    files
        .into_iter()
        .map(|file| {
            let text = fs::read_to_string(&file).unwrap();
            let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default().to_owned();
            Source { path: file.strip_prefix(&root).unwrap().to_str().unwrap().to_owned(), code }
        })
        .collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn assert_none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

/// The layers that a line names as `crate::layer`.
fn layers_named(line: &str) -> Vec<String> {
    let mut named = Vec::new();
    for rest in line.split("crate::").skip(1) {
        let list = rest
            .strip_prefix('{')
            .map_or(rest, |inside| inside.split('}').next().unwrap_or(inside));
        let items = if rest.starts_with('{') { list.split(',').collect() } else { vec![list] };
        for item in items {
            named.push(
                item.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect(),
            );
        }
    }
    named
}

#[test]
fn arrows_point_down() {
    let arrows: BTreeMap<_, _> = ARROWS.iter().copied().collect();
    let mut found = Vec::new();
    for source in sources() {
        let layer = source.path.split(['/', '.']).next().unwrap_or_default().to_owned();
        if source.path.starts_with("protocol/") || source.path.ends_with("tests.rs") {
            continue;
        }
        let Some(allowed) = arrows.get(layer.as_str()) else { continue };
        for (number, line) in source.code.lines().enumerate() {
            if line.trim_start().starts_with("//") {
                continue;
            }
            for named in layers_named(line) {
                if named != layer
                    && arrows.contains_key(named.as_str())
                    && !allowed.contains(&named.as_str())
                {
                    found.push(format!(
                        "src/{}:{}: {layer} names {named}",
                        source.path,
                        number + 1
                    ));
                }
            }
        }
    }
    assert_none("arrows that point up", &found);
}

#[test]
fn pure_files_do_no_io() {
    let mut found = Vec::new();
    for source in sources() {
        let head: String = source.code.lines().take_while(|line| line.starts_with("//!")).collect();
        if !head.contains("`[P]`") || source.path.starts_with("testing/") {
            continue;
        }
        for (number, line) in
            source.code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
        {
            for impure in IMPURE.iter().filter(|impure| line.contains(**impure)) {
                found.push(format!("src/{}:{}: {impure}", source.path, number + 1));
            }
        }
    }
    assert_none("impurities", &found);
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent = |source: &Source| !source.code.starts_with("//!");
    let found: Vec<String> =
        sources().into_iter().filter(silent).map(|source| source.path).collect();
    assert_none("files without a doc at their head", &found);
}

#[test]
fn no_file_is_too_long() {
    let lines = |source: &Source| source.code.lines().count();
    let found: Vec<String> = sources()
        .iter()
        .filter(|source| lines(source) > LONGEST_FILE)
        .map(|source| format!("{}: {} lines", source.path, lines(source)))
        .collect();
    assert_none("files that want cutting", &found);
}

#[test]
fn nothing_is_left_lying_about() {
    let marks = [
        "FIX".to_owned() + "ME",
        "XX".to_owned() + "X",
        "HA".to_owned() + "CK",
        "unimple".to_owned() + "mented!",
    ];
    let mut found = Vec::new();
    for source in sources() {
        for mark in marks.iter().filter(|mark| source.code.contains(mark.as_str())) {
            found.push(format!("src/{}: {mark}", source.path));
        }
    }
    assert_none("leftovers", &found);
}
