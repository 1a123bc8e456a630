//! Lines of the log as Kafka's users know them, on standard output.
//!
//! ```text
//! [2026-11-29 12:00:00,000] INFO Kafka Server started (server)
//! ```
//!
//! `RUST_LOG` says what is logged (`info`, `debug`, `ottla::network=debug`, …), and
//! `OTTLA_LOG_FORMAT=json` makes each line a JSON object. Times are UTC.

use std::fmt;
use std::io;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, time::FormatTime};
use tracing_subscriber::registry::LookupSpan;

use crate::sys::clock::wall_now;
use crate::types::Timestamp;

/// Begins to log. A second call in one process changes nothing.
pub fn init() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(io::stdout);
    let is_json = std::env::var("OTTLA_LOG_FORMAT").is_ok_and(|format| format == "json");
    let _ = if is_json {
        builder.json().flatten_event(true).with_timer(Utc).try_init()
    } else {
        builder.with_ansi(false).event_format(KafkaLine).try_init()
    };
}

/// `yyyy-MM-ddTHH:mm:ss.mmmZ`, for JSON.
struct Utc;

impl FormatTime for Utc {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let Date { year, month, day, hour, minute, second, millis } = Date::of(wall_now());
        write!(
            writer,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"
        )
    }
}

/// `[date] LEVEL message (component)`
struct KafkaLine;

impl<S, N> FormatEvent<S, N> for KafkaLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Date { year, month, day, hour, minute, second, millis } = Date::of(wall_now());
        write!(
            writer,
            "[{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02},{millis:03}] {} ",
            level_name(*event.metadata().level())
        )?;
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer, " ({})", component(event.metadata().target()))
    }
}

/// Levels in the words of log4j.
fn level_name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "ERROR",
        Level::WARN => "WARN",
        Level::INFO => "INFO",
        Level::DEBUG => "DEBUG",
        Level::TRACE => "TRACE",
    }
}

/// `ottla::network::listener` is `network.listener`.
fn component(target: &str) -> String {
    target.strip_prefix("ottla::").unwrap_or(target).replace("::", ".")
}

/// A moment on the calendar.
#[derive(Debug, PartialEq, Eq)]
struct Date {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    millis: i64,
}

impl Date {
    /// The date in UTC. Years are counted from March, so that the leap day is the
    /// last one, in eras of 400 years, which all have the same length.
    fn of(time: Timestamp) -> Self {
        const DAY: i64 = 86_400_000;
        const ERA: i64 = 146_097;
        const MARCH_0000_TO_1970: i64 = 719_468;
        let (days, of_day) = (time.0.div_euclid(DAY), time.0.rem_euclid(DAY));
        let days = days + MARCH_0000_TO_1970;
        let (era, of_era) = (days.div_euclid(ERA), days.rem_euclid(ERA));
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        Self {
            year: era * 400 + year_of_era + i64::from(month <= 2),
            month,
            day: of_year - (153 * from_march + 2) / 5 + 1,
            hour: of_day / 3_600_000,
            minute: of_day / 60_000 % 60,
            second: of_day / 1000 % 60,
            millis: of_day % 1000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(millis: i64) -> String {
        let d = Date::of(Timestamp(millis));
        format!(
            "{}-{}-{} {}:{}:{},{}",
            d.year, d.month, d.day, d.hour, d.minute, d.second, d.millis
        )
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-1-1 0:0:0,0");
        assert_eq!(date(951_782_399_999), "2000-2-28 23:59:59,999");
        assert_eq!(date(951_782_400_000), "2000-2-29 0:0:0,0");
        assert_eq!(date(951_868_800_000), "2000-3-1 0:0:0,0");
        assert_eq!(date(1_704_067_199_001), "2023-12-31 23:59:59,1");
        assert_eq!(date(1_704_067_200_000), "2024-1-1 0:0:0,0");
        assert_eq!(date(4_107_542_400_000), "2100-3-1 0:0:0,0");
    }

    #[test]
    fn components_are_named_without_the_crate() {
        assert_eq!(component("ottla::network::listener"), "network.listener");
        assert_eq!(component("other::thing"), "other.thing");
    }
}
