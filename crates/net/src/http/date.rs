//! The date of answers: written out once a second and thread.

use std::cell::Cell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// As HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Date([u8; LENGTH]);

const LENGTH: usize = 29;
/// The last second that has four digits for its year.
const LAST_SECOND: u64 = 253_402_300_799;

thread_local! {
    /// The last one, and its second of the epoch.
    static LATEST: Cell<(u64, [u8; LENGTH])> = const { Cell::new((u64::MAX, [b' '; LENGTH])) };
}

impl Date {
    pub(crate) fn now() -> Self {
        Self::of(SystemTime::now())
    }

    /// A clock that is out of HTTP's range counts as the nearest second within.
    pub(crate) fn of(time: SystemTime) -> Self {
        let second = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let second = second.min(LAST_SECOND);
        let (of, mut text) = LATEST.get();
        if of != second {
            let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second));
            text = date.as_bytes().try_into().unwrap_or(text);
            LATEST.set((second, text));
        }
        Self(text)
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_http() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(Date::of(at(784_111_777)).as_str(), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(Date::of(at(784_111_778)).as_str(), "Sun, 06 Nov 1994 08:49:38 GMT");
        let first = "Thu, 01 Jan 1970 00:00:00 GMT";
        assert_eq!(Date::of(UNIX_EPOCH - Duration::from_secs(5)).as_str(), first);
        assert_eq!(Date::of(at(1 << 40)).as_str(), "Fri, 31 Dec 9999 23:59:59 GMT");
        let before = SystemTime::now();
        assert!(
            httpdate::parse_http_date(Date::now().as_str()).unwrap() + Duration::from_secs(1)
                > before
        );
    }
}
