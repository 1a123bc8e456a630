//! Histories by dice: what clients of one group may do, in any order.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

const STEPS: usize = 40;

/// Writes histories without their answers.
pub fn write(path: &str, histories: u64) {
    let mut text = String::from(
        "# Histories by dice, and what Apache Kafka 4.4.0 answers; see main.rs.\n\n> x until-served\n> x create-topic topics=t:2\n",
    );
    for seed in 0..histories {
        let mut dice = StdRng::seed_from_u64(seed);
        let _ = writeln!(text, "\n> group h{seed}");
        // Some histories have many static members, some none.
        let statics = dice.random_range(0..3);
        for _ in 0..STEPS {
            let _ = writeln!(text, "> {}", step(&mut dice, statics));
        }
    }
    fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join(path), text).unwrap();
}

fn one_of<'a>(dice: &mut StdRng, among: &[&'a str]) -> &'a str {
    among[dice.random_range(0..among.len())]
}

fn step(dice: &mut StdRng, statics: u32) -> String {
    let who = one_of(dice, &["a", "b", "c"]);
    let instance = match (statics, who) {
        (1, "a") | (2, "a" | "b") if dice.random_bool(0.9) => format!(" instance=i{who}"),
        (2, "c") if dice.random_bool(0.1) => " instance=ia".to_owned(),
        _ => String::new(),
    };
    // Most know what they do.
    let member = match dice.random_range(0..14) {
        0 => " member=<empty>".to_owned(),
        1 => format!(" member=@{}", one_of(dice, &["a", "b", "c", "m1", "m2"])),
        2 => " member=stranger".to_owned(),
        _ => String::new(),
    };
    let generation = match dice.random_range(0..12) {
        0 => format!(" generation={}", dice.random_range(-1..4)),
        _ => String::new(),
    };
    match dice.random_range(0..100) {
        0..35 => {
            let protocols = one_of(
                dice,
                &[
                    "range:r",
                    "range:r",
                    "range:r",
                    "range:R",
                    "sticky:s,range:r",
                    "range:r,sticky:s",
                    "sticky:s",
                ],
            );
            let kind = if dice.random_bool(0.03) { " type=connect" } else { "" };
            let version = one_of(dice, &["9", "9", "9", "5", "7", "3", "2"]);
            let version = if instance.is_empty() || version >= "5" { version } else { "5" };
            format!("{who} join v={version} protocols={protocols}{kind}{member}{instance}")
        }
        35..60 => {
            let protocol = one_of(dice, &["range", "range", "range", "sticky"]);
            let version = one_of(dice, &["5", "4", "3"]);
            format!(
                "{who} sync v={version} protocol={protocol} assign=@a:A,@b:B,@c:C{generation}{member}{instance}"
            )
        }
        60..70 => format!("{who} beat{generation}{member}{instance}"),
        70..80 => {
            let target = match dice.random_range(0..5) {
                0 => " members=@a,@b".to_owned(),
                1 => " members=<empty>:ia".to_owned(),
                2 => " members=@a:ia".to_owned(),
                _ => String::new(),
            };
            format!("{who} leave{target}")
        }
        80..90 => {
            let simple = if dice.random_bool(0.2) { " simple" } else { "" };
            let offset = dice.random_range(0..100);
            format!("{who} commit offset={offset}{simple}{generation}{member}{instance}")
        }
        90..95 => format!("{who} describe"),
        95 => format!("{who} fetch topics=all"),
        96 => format!("{who} forget"),
        97 => format!("{who} delete"),
        _ => format!("{who} hangs-up"),
    }
}
