//! Numbers, dates, patterns, JSON.

use chrono::{DateTime, Datelike, Local, NaiveDate, TimeDelta, TimeZone, Utc};
use curtail_sweep::{Outcome, must, text};
use regex::{Captures, Regex, RegexSet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::LazyLock;

pub fn ryu() -> Outcome {
    let mut buffer = ryu::Buffer::new();
    let mut digits = 0;
    let mut bits = 0x3ff0_0000_0000_0001_u64;
    for _ in 0..400 {
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = f64::from_bits(bits);
        if number.is_finite() {
            let printed = buffer.format_finite(number);
            let read: f64 = printed.parse().map_err(text)?;
            must!(read.to_bits() == bits, "{printed} is not {number:e}");
            digits += printed.len();
        }
    }
    Ok(digits.to_string())
}

pub fn chrono() -> Outcome {
    let first = NaiveDate::from_ymd_opt(2024, 2, 28).ok_or("no such day")?;
    let mut weekdays = 0;
    for day in 0..60 {
        let date = first + TimeDelta::days(day * 31);
        let printed = date.format("%A %e %B %Y").to_string();
        let read = NaiveDate::parse_from_str(&printed, "%A %e %B %Y").map_err(text)?;
        must!(read == date, "{printed} is read as {read}");
        weekdays += date.weekday().number_from_monday();

        let instant = Utc.timestamp_opt(1_700_000_000 + day * 86_399, 123_456_789);
        let instant = instant.single().ok_or("no such instant")?;
        let local = instant.with_timezone(&Local);
        let read = DateTime::parse_from_rfc3339(&local.to_rfc3339()).map_err(text)?;
        must!(read == instant, "{local} is read as {read}");
    }
    Ok(weekdays.to_string())
}

static LINE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?x) (?P<user>[\w.+-]+) @ (?P<host>(?:[a-z0-9-]+\.)+[a-z]{2,}) \s+ (\d+)")
        .expect("a pattern")
});
static KINDS: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSet::new([r"^user1\d\d", r"\.org\b", r"\d{4}$", r"(?i)NOTHING"]).expect("patterns")
});

pub fn regex() -> Outcome {
    let lines: Vec<String> =
        (0..120).map(|n| format!("user{n}@host-{}.example.org {}", n % 7, n * 13)).collect();
    let mut sum = 0_u64;
    for (n, line) in lines.iter().enumerate() {
        let found = LINE.captures(line).ok_or_else(|| format!("{line} is not matched"))?;
        must!(found["user"] == format!("user{n}"), "{line}: user {}", &found["user"]);
        sum += found[3].parse::<u64>().map_err(text)?;
    }
    let text = lines.join("\n");
    let replaced =
        LINE.replace_all(&text, |found: &Captures| format!("{}:{}", &found[2], &found[1]));
    let kinds: usize = lines.iter().map(|line| KINDS.matches(line).iter().count()).sum();
    Ok(format!("{sum} {} {kinds}", replaced.len()))
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Point,
    Circle { radius: f64 },
    Polygon(Vec<(f64, f64)>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Drawing {
    title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    author: Option<String>,
    shapes: Vec<Shape>,
    counts: BTreeMap<String, i64>,
}

pub fn serde_json() -> Outcome {
    let polygon = |n: u32| Shape::Polygon((0..n).map(|i| (f64::from(i) / 4.0, 1e-7)).collect());
    let circle = |n: u32| Shape::Circle { radius: f64::from(n) / 8.0 };
    let drawing = Drawing {
        title: "quotes \" and \u{1F600}, \\ and \n".to_owned(),
        author: None,
        shapes: (0..40).flat_map(|n| [Shape::Point, circle(n), polygon(n % 9)]).collect(),
        counts: (0..60).map(|n| (format!("key {n}"), n * -1_000_000_007)).collect(),
    };
    let written = serde_json::to_string_pretty(&drawing).map_err(text)?;
    let read: Drawing = serde_json::from_str(&written).map_err(text)?;
    must!(read == drawing, "typed, it is {read:?}");
    let value: serde_json::Value = serde_json::from_slice(written.as_bytes()).map_err(text)?;
    let again: Drawing = serde_json::from_value(value.clone()).map_err(text)?;
    must!(again == drawing, "by a value, it is {again:?}");
    let error = serde_json::from_str::<Drawing>(&written[..written.len() / 2]);
    must!(error.is_err(), "half of it was read");
    Ok(format!("{} {}", value.to_string().len(), value["counts"]["key 59"]))
}
