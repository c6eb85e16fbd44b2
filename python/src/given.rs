//! Options as Python gives them: a JSON object, whose values are taken out one by one. Numbers with
//! a unit may be text in the notation of the command line.

use curtail_experiment::Error;
use curtail_workload::duration_ns;
use serde_json::{Map, Value};
use std::fmt::Display;
use std::str::FromStr;

/// What is left of the options.
pub(crate) struct Given(Map<String, Value>);

/// An error about one option.
pub(crate) fn about(name: &str, why: impl Display) -> Error {
    Error::Usage(format!("{name}: {why}"))
}

impl Given {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let options = serde_json::from_str(text).map_err(|error| about("options", error))?;
        Ok(Self(options))
    }

    /// Whether an option is still there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !value.is_null())
    }

    /// At most one of these makes sense.
    pub(crate) fn at_most_one(&self, names: &[&str]) -> Result<(), Error> {
        let given: Vec<_> = names.iter().copied().filter(|name| self.has(name)).collect();
        match given[..] {
            [] | [_] => Ok(()),
            _ => Err(Error::Usage(format!("{} exclude each other", given.join(" and ")))),
        }
    }

    /// Takes an option out, as `read` reads it; `None` where it is not given.
    pub(crate) fn take<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Result<Option<T>, Error> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => read(&value).map(Some).map_err(|why| about(name, why)),
        }
    }

    /// A text, or what `FromStr` makes of it.
    pub(crate) fn text<T: FromStr<Err: Display>>(
        &mut self,
        name: &str,
    ) -> Result<Option<T>, Error> {
        self.take(name, |value| word(value)?.parse().map_err(|error: T::Err| error.to_string()))
    }

    /// A whole number of at least `least`.
    pub(crate) fn number<T: TryFrom<u64>>(
        &mut self,
        name: &str,
        least: u64,
    ) -> Result<Option<T>, Error> {
        self.take(name, |value| whole(value, least))
    }

    /// Yes or no.
    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>, Error> {
        let flag = |value: &Value| value.as_bool().ok_or(format!("{value} is not True or False"));
        self.take(name, flag)
    }

    /// A duration, in nanoseconds.
    pub(crate) fn duration(&mut self, name: &str) -> Result<Option<u64>, Error> {
        self.take(name, nanoseconds)
    }

    /// A list, or its items as text with commas in between.
    pub(crate) fn list<T>(
        &mut self,
        name: &str,
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> Result<Vec<T>, Error> {
        let list = self.take(name, |value| match value {
            Value::Array(items) => items.iter().map(&read).collect(),
            Value::String(text) => text.split(',').map(|item| read(&item.trim().into())).collect(),
            other => Err(format!("{other} is no list")),
        })?;
        Ok(list.unwrap_or_default())
    }

    /// Nothing is left.
    pub(crate) fn finish(self) -> Result<(), Error> {
        match self.0.into_iter().next() {
            Some((name, _)) => Err(Error::Usage(format!("there is no option {name}"))),
            None => Ok(()),
        }
    }
}

/// A text.
pub(crate) fn word(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or(format!("{value} is no text"))
}

/// A whole number of at least `least`; also as text.
pub(crate) fn whole<T: TryFrom<u64>>(value: &Value, least: u64) -> Result<T, String> {
    let number = match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    };
    let number = number.filter(|number| *number >= least).and_then(|number| number.try_into().ok());
    number.ok_or_else(|| format!("{value} is no whole number from {least} on, or too large"))
}

/// A duration: whole nanoseconds, or a text with a unit.
pub(crate) fn nanoseconds(value: &Value) -> Result<u64, String> {
    match value {
        Value::String(text) => duration_ns(text).map_err(|error| error.to_string()),
        // Only so many are exact further down.
        Value::Number(number) => number.as_u64().filter(|ns| *ns < 1 << 53).ok_or_else(|| {
            format!("{number} is no duration: write whole nanoseconds, or text like \"2us\"")
        }),
        other => Err(format!("{other} is no duration")),
    }
}

/// A number, or a text that stands for one, as `read` reads it.
pub(crate) fn decimal<E: Display>(
    value: &Value,
    read: impl FnOnce(&str) -> Result<f64, E>,
) -> Result<f64, String> {
    let text = match value {
        Value::String(text) => text.clone(),
        // Without an exponent, and exact.
        Value::Number(number) => number.as_f64().map(|n| n.to_string()).unwrap_or_default(),
        other => return Err(format!("{other} is no number")),
    };
    read(&text).map_err(|error| error.to_string())
}
