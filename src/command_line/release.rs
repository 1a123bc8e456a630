//! Names of the levels of `metadata.version`. `[P]`

/// Levels by name, from the lowest that 4.x accepts on. The last of a release is
/// what the release's own name stands for.
const LEVELS: [(i16, &str); 27] = [
    (7, "3.3-IV3"),
    (8, "3.4-IV0"),
    (9, "3.5-IV0"),
    (10, "3.5-IV1"),
    (11, "3.5-IV2"),
    (12, "3.6-IV0"),
    (13, "3.6-IV1"),
    (14, "3.6-IV2"),
    (15, "3.7-IV0"),
    (16, "3.7-IV1"),
    (17, "3.7-IV2"),
    (18, "3.7-IV3"),
    (19, "3.7-IV4"),
    (20, "3.8-IV0"),
    (21, "3.9-IV0"),
    (22, "4.0-IV0"),
    (23, "4.0-IV1"),
    (24, "4.0-IV2"),
    (25, "4.0-IV3"),
    (26, "4.1-IV0"),
    (27, "4.1-IV1"),
    (28, "4.2-IV0"),
    (29, "4.2-IV1"),
    (30, "4.3-IV0"),
    (31, "4.4-IV0"),
    (32, "4.4-IV1"),
    (33, "4.4-IV2"),
];

/// The level of `4.1-IV0`, or the last of `4.1` or `4.1.2`.
pub fn level_of_release(name: &str) -> Option<i16> {
    let mut parts = name.splitn(3, '.');
    let release = match (parts.next(), parts.next()) {
        (Some(major), Some(minor)) if !minor.contains('-') => format!("{major}.{minor}-IV"),
        _ => return LEVELS.iter().find(|(_, known)| *known == name).map(|(level, _)| *level),
    };
    LEVELS.iter().rfind(|(_, known)| known.starts_with(&release)).map(|(level, _)| *level)
}

/// The name of a level; the number itself where it has none.
pub fn name_of_level(level: i16) -> String {
    let known = LEVELS.iter().find(|(known, _)| *known == level);
    known.map_or_else(|| level.to_string(), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_stand_for_their_last_level() {
        for (name, level) in [
            ("4.0", Some(25)),
            ("4.0.1", Some(25)),
            ("4.1-IV0", Some(26)),
            ("4.4", Some(33)),
            ("9", None),
        ] {
            assert_eq!(level_of_release(name), level, "{name}");
        }
        assert_eq!((name_of_level(33).as_str(), name_of_level(99).as_str()), ("4.4-IV2", "99"));
    }
}
