//! The highest rate that passes a test: first by doubling, then by halving the gap.

/// How far apart the last rate that passed and the first that failed may remain.
const FINE: f64 = 1.03;

/// Looks for the highest rate up to `most` at which `passes` says so, beginning with `first`; it gives
/// what was achieved at that rate. A rate that fails is tried once more, as a neighbour on the same
/// machine may have been the reason. `None` where nothing from `first / 64` upwards passes.
///
/// # Errors
/// The first that `passes` gives.
pub fn highest<E>(
    first: f64,
    most: f64,
    mut passes: impl FnMut(f64) -> Result<Option<f64>, E>,
) -> Result<Option<f64>, E> {
    let mut twice = |rate: f64| match passes(rate)? {
        None => passes(rate),
        achieved => Ok(achieved),
    };
    let mut below = None;
    let mut above = None;
    let mut rate = first;
    loop {
        match twice(rate)? {
            Some(achieved) => below = Some((rate, achieved)),
            None => above = Some(rate),
        }
        rate = match (below, above) {
            (Some((low, achieved)), Some(high)) if high / low <= FINE => return Ok(Some(achieved)),
            (Some((low, _)), Some(high)) => (low * high).sqrt(),
            (Some((low, achieved)), None) if low >= most => return Ok(Some(achieved)),
            (Some((low, _)), None) => (low * 2.0).min(most),
            (None, Some(high)) if high <= first / 64.0 => return Ok(None),
            (None, Some(high)) => high / 2.0,
            (None, None) => unreachable!("the rate passed or it did not"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::highest;

    fn up_to(limit: f64, first: f64) -> Option<f64> {
        highest(first, 1e6, |rate| Ok::<_, ()>((rate <= limit).then_some(rate))).unwrap()
    }

    #[test]
    fn the_limit_is_found_from_below_and_from_above() {
        for first in [1_000.0, 50_000.0, 400_000.0] {
            let found = up_to(77_000.0, first).unwrap();
            assert!((77_000.0 / 1.03..=77_000.0).contains(&found), "{first}: {found}");
        }
        assert_eq!(up_to(2e6, 1_000.0), Some(1e6));
        assert_eq!(up_to(10.0, 1_000.0), None);
    }

    #[test]
    fn one_failure_is_forgiven() {
        let mut tries = 0;
        let found = highest(1_000.0, 4_000.0, |rate| {
            tries += 1;
            Ok::<_, ()>((tries % 2 == 0).then_some(rate))
        });
        assert_eq!(found, Ok(Some(4_000.0)));
    }

    #[test]
    fn what_breaks_ends_the_search() {
        assert_eq!(highest(1.0, 2.0, |_| Err("gone")), Err("gone"));
    }
}
