//! Values of configuration keys, read and written as Java does it. `[P]`

use std::collections::HashSet;
use std::fmt;

/// The type of a key, by Kafka's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// `true` or `false`, in any case.
    Boolean,
    /// Text.
    String,
    /// 32 bits.
    Int,
    /// 16 bits.
    Short,
    /// 64 bits.
    Long,
    /// A double.
    Double,
    /// Texts between commas.
    List,
    /// The name of a Java class. Kept as text.
    Class,
    /// Text that is never shown.
    Password,
}

impl Type {
    /// The type of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "BOOLEAN" => Self::Boolean,
            "STRING" => Self::String,
            "INT" => Self::Int,
            "SHORT" => Self::Short,
            "LONG" => Self::Long,
            "DOUBLE" => Self::Double,
            "LIST" => Self::List,
            "CLASS" => Self::Class,
            "PASSWORD" => Self::Password,
            _ => return None,
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Boolean => "BOOLEAN",
            Self::String => "STRING",
            Self::Int => "INT",
            Self::Short => "SHORT",
            Self::Long => "LONG",
            Self::Double => "DOUBLE",
            Self::List => "LIST",
            Self::Class => "CLASS",
            Self::Password => "PASSWORD",
        }
    }

    /// Its number in DescribeConfigs answers (KIP-569).
    pub fn wire(self) -> i8 {
        match self {
            Self::Boolean => 1,
            Self::String => 2,
            Self::Int => 3,
            Self::Short => 4,
            Self::Long => 5,
            Self::Double => 6,
            Self::List => 7,
            Self::Class => 8,
            Self::Password => 9,
        }
    }
}

/// A value of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Not set, where a key may be without value.
    Null,
    /// Of a BOOLEAN.
    Boolean(bool),
    /// Of an INT.
    Int(i32),
    /// Of a SHORT.
    Short(i16),
    /// Of a LONG.
    Long(i64),
    /// Of a DOUBLE.
    Double(f64),
    /// Of a STRING or CLASS.
    String(String),
    /// Of a LIST.
    List(Vec<String>),
    /// Of a PASSWORD.
    Password(String),
}

impl Value {
    /// Leaves each entry of a list where it stands first.
    pub(super) fn drop_repetitions(&mut self) {
        if let Self::List(entries) = self {
            let mut seen = HashSet::new();
            entries.retain(|entry| seen.insert(entry.clone()));
        }
    }

    /// Reads a value as it stands in a file; the reason when it is none of that type.
    pub fn parse(kind: Type, text: &str) -> Result<Self, String> {
        let text = trim(text);
        let number = || format!("Not a number of type {}", kind.name());
        Ok(match kind {
            Type::Boolean if text.eq_ignore_ascii_case("true") => Self::Boolean(true),
            Type::Boolean if text.eq_ignore_ascii_case("false") => Self::Boolean(false),
            Type::Boolean => return Err("Expected value to be either true or false".into()),
            Type::Int => Self::Int(text.parse().map_err(|_| number())?),
            Type::Short => Self::Short(text.parse().map_err(|_| number())?),
            Type::Long => Self::Long(text.parse().map_err(|_| number())?),
            Type::Double => Self::Double(parse_double(text).ok_or_else(number)?),
            Type::String | Type::Class => Self::String(text.to_owned()),
            Type::Password => Self::Password(text.to_owned()),
            Type::List if text.is_empty() => Self::List(Vec::new()),
            Type::List => Self::List(text.split(',').map(|part| trim(part).to_owned()).collect()),
        })
    }

    /// Reads the default of a key from the table.
    pub fn default(kind: Type, text: &str) -> Option<Self> {
        if text == "null" { Some(Self::Null) } else { Self::parse(kind, text).ok() }
    }

    /// The value as it would stand in a file, passwords readable. Empty for null.
    pub fn to_config_text(&self) -> String {
        match self {
            Self::Null => String::new(),
            Self::Password(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

/// As DescribeConfigs shows it: lists joined by commas, passwords hidden.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Boolean(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Short(value) => value.fmt(f),
            Self::Long(value) => value.fmt(f),
            Self::Double(value) => f.write_str(&double_text(*value)),
            Self::String(value) => f.write_str(value),
            Self::List(values) => f.write_str(&values.join(",")),
            Self::Password(_) => f.write_str("[hidden]"),
        }
    }
}

/// Java's `String.trim`: everything up to the blank.
fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c <= ' ')
}

/// Java's forms of a double: no `inf` or `nan` in small letters, a trailing
/// `d` or `f` allowed.
fn parse_double(text: &str) -> Option<f64> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let value = match unsigned {
        "NaN" => f64::NAN,
        "Infinity" => f64::INFINITY,
        _ => {
            let digits = unsigned.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(unsigned);
            if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
                return None;
            }
            digits.parse().ok()?
        }
    };
    Some(if negative { -value } else { value })
}

/// Java's `Double.toString`: plain between 10^-3 and 10^7, otherwise with an
/// exponent, always with a digit after the point.
fn double_text(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    let size = value.abs();
    if value.is_nan() || value == 0.0 || (1e-3..1e7).contains(&size) {
        return format!("{value:?}");
    }
    let text = format!("{value:E}");
    match text.split_once('E') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
        _ => text,
    }
}

/// A Rust type that a value can be read as.
pub trait FromValue: Sized {
    /// The value, when it is of this type.
    fn from_value(value: &Value) -> Option<Self>;
}

macro_rules! from_value {
    ($($rust:ty: $variant:ident),+) => {$(
        impl FromValue for $rust {
            fn from_value(value: &Value) -> Option<Self> {
                if let Value::$variant(value) = value { Some(value.clone()) } else { None }
            }
        }
    )+};
}

from_value!(bool: Boolean, i32: Int, i16: Short, i64: Long, f64: Double, Vec<String>: List);

impl FromValue for String {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) | Value::Password(text) => Some(text.clone()),
            _ => None,
        }
    }
}

/// For keys that may be without value.
impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Value) -> Option<Self> {
        if *value == Value::Null { Some(None) } else { T::from_value(value).map(Some) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_java_reads_them() {
        let parse = |kind, text| Value::parse(kind, text);
        assert_eq!(parse(Type::Boolean, " TRUE "), Ok(Value::Boolean(true)));
        assert_eq!(parse(Type::Int, "+7"), Ok(Value::Int(7)));
        assert_eq!(parse(Type::Int, "2147483648"), Err("Not a number of type INT".into()));
        assert_eq!(parse(Type::Long, "9223372036854775807"), Ok(Value::Long(i64::MAX)));
        assert_eq!(parse(Type::List, ""), Ok(Value::List(vec![])));
        assert_eq!(
            parse(Type::List, "a , b,"),
            Ok(Value::List(vec!["a".into(), "b".into(), String::new()]))
        );
        assert_eq!(parse(Type::Double, "0.5d"), Ok(Value::Double(0.5)));
        assert!(parse(Type::Double, "inf").is_err());
        assert!(parse(Type::Boolean, "yes").is_err());
    }

    #[test]
    fn doubles_are_written_as_java_writes_them() {
        for (value, text) in [
            (f64::MAX, "1.7976931348623157E308"),
            (0.9, "0.9"),
            (1.0, "1.0"),
            (1e7, "1.0E7"),
            (123456.5, "123456.5"),
            (0.0005, "5.0E-4"),
        ] {
            assert_eq!(double_text(value), text);
        }
    }
}
