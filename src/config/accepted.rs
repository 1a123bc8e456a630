//! Which values a key accepts, and in which words Kafka refuses others. `[P]`

use super::definition::Invalid;
use super::value::{Type, Value};

/// What a key accepts, beyond its type.
#[derive(Clone, Debug, PartialEq)]
pub enum Accepted {
    /// Everything of its type (a list still without empty and repeated entries).
    Any,
    /// A number within bounds, both included.
    Range(Bound, Bound),
    /// A number within bounds, or this one: `[1,...,9] or -1`.
    RangeOr(Bound, Bound, i64),
    /// One of these texts, or a list of them.
    OneOf(Vec<&'static str>),
    /// One of these texts in any case.
    OneOfAnyCase(Vec<&'static str>),
    /// A text or list that is not empty.
    NonEmpty,
    /// `partition:broker,…`, or `*`: which replicas are throttled (KIP-73).
    ThrottledReplicas,
    /// Where share groups start reading: `latest`, `earliest`, `by_duration:` and a duration.
    AutoOffsetReset,
}

/// A bound of a range; none on an open side.
pub type Bound = Option<&'static str>;

impl Accepted {
    /// Reads the table's notation; `None` for what is no such thing.
    pub fn from_notation(kind: Type, text: &'static str) -> Option<Self> {
        if text.starts_with("[partitionId]") {
            return Some(Self::ThrottledReplicas);
        }
        if text.starts_with("[latest") {
            return Some(Self::AutoOffsetReset);
        }
        if let Some(list) = text.strip_prefix("(case insensitive) ") {
            return Some(Self::OneOfAnyCase(read_choices(list)?));
        }
        match text {
            "non-null string" => return Some(Self::Any),
            "non-empty string" | "non-empty list" => return Some(Self::NonEmpty),
            _ => {}
        }
        if !matches!(kind, Type::Int | Type::Short | Type::Long | Type::Double) {
            return Some(Self::OneOf(read_choices(text)?));
        }
        let (range, or) = match text.split_once(" or ") {
            Some((range, or)) => (range, Some(or.parse().ok()?)),
            None => (text, None),
        };
        let (low, high) = read_range(range)?;
        Some(match or {
            Some(or) => Self::RangeOr(low, high, or),
            None => Self::Range(low, high),
        })
    }

    /// Checks a value of the key of this name.
    pub fn check(&self, name: &str, value: &Value) -> Result<(), Invalid> {
        let refuse = |reason: String| Invalid::value(name, &value.to_string(), &reason);
        match (self, value) {
            (_, Value::List(entries)) => self.check_list(name, entries),
            (Self::Range(low, high), _) => check_range(*low, *high, value).map_err(refuse),
            (Self::RangeOr(_, _, or), Value::Int(number)) if i64::from(*number) == *or => Ok(()),
            (Self::RangeOr(low, high, or), _) => check_range(*low, *high, value).map_err(|_| {
                let (low, high) = (low.unwrap_or(""), high.unwrap_or(""));
                refuse(format!("Value must be between {low} and {high} or equal to {or}"))
            }),
            (Self::OneOf(choices), Value::String(text)) => one_of(name, choices, text),
            (Self::OneOfAnyCase(choices), Value::String(text)) => {
                if choices.iter().any(|choice| choice.eq_ignore_ascii_case(text)) {
                    return Ok(());
                }
                let choices = choices.join(", ");
                Err(refuse(format!("String must be one of (case insensitive): {choices}")))
            }
            (Self::NonEmpty, Value::String(text)) if text.is_empty() => {
                Err(refuse("String must be non-empty".into()))
            }
            (Self::AutoOffsetReset, Value::String(text)) if !is_reset(text) => Err(refuse(
                "Must be latest, earliest or by_duration: with a duration such as P1DT12H".into(),
            )),
            _ => Ok(()),
        }
    }

    fn check_list(&self, name: &str, entries: &[String]) -> Result<(), Invalid> {
        if *self == Self::ThrottledReplicas {
            return check_throttled(name, entries);
        }
        let whole = |what: &str| Invalid::whole(name, format!("Configuration '{name}' {what}"));
        if *self == Self::NonEmpty && entries.is_empty() {
            return Err(whole("must not be empty. Valid values include: any non-empty value"));
        }
        let is_repeated =
            |(index, entry): (usize, &String)| entries.iter().take(index).any(|e| e == entry);
        if entries.iter().enumerate().any(is_repeated) {
            return Err(whole("values must not be duplicated."));
        }
        for entry in entries {
            if entry.is_empty() {
                return Err(whole("values must not be empty."));
            }
            if let Self::OneOf(choices) = self {
                one_of(name, choices, entry)?;
            }
        }
        Ok(())
    }
}

fn read_choices(text: &'static str) -> Option<Vec<&'static str>> {
    Some(text.strip_prefix('[')?.strip_suffix(']')?.split(", ").collect())
}

fn read_range(text: &'static str) -> Option<(Bound, Bound)> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    let (low, high) = inner.split_once("...")?;
    let low = low.strip_suffix(',').filter(|bound| !bound.is_empty());
    let high = high.strip_prefix(',').filter(|bound| !bound.is_empty());
    Some((low, high))
}

/// Compares as doubles, as Kafka does.
fn check_range(low: Bound, high: Bound, value: &Value) -> Result<(), String> {
    let number = match value {
        Value::Int(number) => f64::from(*number),
        Value::Short(number) => f64::from(*number),
        #[expect(clippy::cast_precision_loss, reason = "bounds are small; Kafka compares so too")]
        Value::Long(number) => *number as f64,
        Value::Double(number) => *number,
        _ => return Err("Value must be non-null".into()),
    };
    let bound = |text: Bound| text.and_then(|text| Some((text, text.parse::<f64>().ok()?)));
    if let Some((text, low)) = bound(low)
        && number < low
    {
        return Err(format!("Value must be at least {text}"));
    }
    if let Some((text, high)) = bound(high)
        && number > high
    {
        return Err(format!("Value must be no more than {text}"));
    }
    Ok(())
}

fn one_of(name: &str, choices: &[&str], text: &str) -> Result<(), Invalid> {
    if choices.contains(&text) {
        return Ok(());
    }
    Err(Invalid::value(name, text, &format!("String must be one of: {}", choices.join(", "))))
}

fn check_throttled(name: &str, entries: &[String]) -> Result<(), Invalid> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_pair = |entry: &String| {
        entry.is_empty()
            || entry
                .split_once(':')
                .is_some_and(|(left, right)| is_number(left) && is_number(right))
    };
    if entries.iter().all(is_pair) || entries.concat() == "*" {
        return Ok(());
    }
    let reason = format!(
        "{name} must be the literal '*' or a list of replicas in the following format: \
         [partitionId]:[brokerId],[partitionId]:[brokerId],..."
    );
    Err(Invalid::value(name, &format!("[{}]", entries.join(", ")), &reason))
}

fn is_reset(text: &str) -> bool {
    let duration = text.strip_prefix("by_duration:");
    matches!(text, "latest" | "earliest") || duration.is_some_and(is_duration)
}

/// A positive ISO-8601 duration of days, hours, minutes, seconds: `P1DT2H3M4.5S`.
fn is_duration(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('P') else { return false };
    let (days, time) = rest.split_once('T').map_or((rest, None), |(d, t)| (d, Some(t)));
    let (Some(day_parts), Some(time_parts)) =
        (duration_parts(days, "D"), duration_parts(time.unwrap_or(""), "HMS"))
    else {
        return false;
    };
    day_parts + time_parts > 0 && time.is_none_or(|_| time_parts > 0)
}

/// How many `number unit` parts stand in the text, units in this order.
fn duration_parts(text: &str, units: &str) -> Option<usize> {
    let (mut units, mut digits, mut parts) = (units.chars(), 0, 0);
    for c in text.chars() {
        if c.is_ascii_digit() || (c == '.' && digits > 0) {
            digits += 1;
        } else if digits > 0 && units.any(|unit| unit == c) {
            (digits, parts) = (0, parts + 1);
        } else {
            return None;
        }
    }
    (digits == 0).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The refusal's text without its beginning, which is always the same.
    fn check(kind: Type, accepted: &'static str, text: &str) -> Result<(), String> {
        let value = Value::parse(kind, text).unwrap();
        let beginning = format!("Invalid value {text} for configuration key: ");
        Accepted::from_notation(kind, accepted)
            .unwrap()
            .check("key", &value)
            .map_err(|invalid| invalid.message.trim_start_matches(&beginning).to_owned())
    }

    #[test]
    fn ranges_name_the_bound_that_is_passed() {
        assert_eq!(check(Type::Int, "[1,...]", "1"), Ok(()));
        assert_eq!(check(Type::Int, "[1,...]", "0"), Err("Value must be at least 1".into()));
        assert_eq!(
            check(Type::Double, "[0,...,1]", "1.5"),
            Err("Value must be no more than 1".into())
        );
        assert_eq!(check(Type::Int, "[1,...,9] or -1", "-1"), Ok(()));
        assert_eq!(
            check(Type::Int, "[1,...,9] or -1", "0"),
            Err("Value must be between 1 and 9 or equal to -1".into())
        );
    }

    #[test]
    fn choices_hold_for_texts_and_lists() {
        assert_eq!(check(Type::List, "[compact, delete]", "delete,compact"), Ok(()));
        assert_eq!(check(Type::List, "[compact, delete]", ""), Ok(()));
        assert_eq!(
            check(Type::List, "[compact, delete]", "drop"),
            Err("String must be one of: compact, delete".into())
        );
        assert_eq!(
            check(Type::List, "[compact, delete]", "delete,delete"),
            Err("Configuration 'key' values must not be duplicated.".into())
        );
        assert_eq!(check(Type::String, "(case insensitive) [ES256, RS256]", "rs256"), Ok(()));
    }

    #[test]
    fn throttled_replicas_are_pairs_or_a_star() {
        let notation = "[partitionId]:[brokerId],[partitionId]:[brokerId],...";
        for good in ["", "*", "0:1", "0:1,1:2"] {
            assert_eq!(check(Type::List, notation, good), Ok(()), "{good}");
        }
        for bad in ["0", "0:1,*", "a:1", "0:"] {
            assert!(check(Type::List, notation, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn share_groups_may_start_some_time_back() {
        let notation = "[latest, earliest, by_duration:PnDTnHnMn.nS]";
        for good in ["latest", "earliest", "by_duration:P1D", "by_duration:PT1H2.5S"] {
            assert_eq!(check(Type::String, notation, good), Ok(()), "{good}");
        }
        for bad in
            ["", "none", "by_duration:", "by_duration:P", "by_duration:P1DT", "by_duration:1H"]
        {
            assert!(check(Type::String, notation, bad).is_err(), "{bad}");
        }
    }
}
