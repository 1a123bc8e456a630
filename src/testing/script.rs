//! Golden scripts: a file of situations, each a line of input after `> ` and the
//! output expected below it. `UPDATE=1 cargo test` writes what came out instead.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

/// Runs the script at `path` (below `src`); `step` turns an input line into the
/// lines that it causes.
pub fn run(path: &str, mut step: impl FnMut(&str) -> String) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(path);
    let expected = fs::read_to_string(&file).unwrap();
    let mut actual = String::new();
    for line in expected.lines() {
        match line.strip_prefix("> ") {
            Some(input) => {
                let output = step(input);
                let _ = writeln!(actual, "{line}");
                let _ = output.lines().try_for_each(|line| writeln!(actual, "{line}"));
            }
            None if line.is_empty() || line.starts_with('#') => {
                let _ = writeln!(actual, "{line}");
            }
            None => {}
        }
    }
    if env::var_os("UPDATE").is_some() {
        fs::write(&file, actual).unwrap();
    } else {
        assert_eq!(actual, expected, "\n{path} says otherwise; UPDATE=1 writes what came out");
    }
}
