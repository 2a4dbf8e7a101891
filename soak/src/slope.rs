//! A straight line through measurements: whether memory grows.
//!
//! ```text
//! (seconds, bytes).. ──least squares──▶ bytes a second ──▶ percent of the mean an hour
//! ```

/// A measurement: its time in seconds, and its value.
pub(crate) type Point = (f64, f64);

/// The growth of a straight line through the points, in percent of their mean an hour. `None` for
/// fewer than two times, or a mean of zero.
pub(crate) fn percent_an_hour(points: &[Point]) -> Option<f64> {
    let count = points.len() as f64;
    let mean = |of: fn(&Point) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (time, value) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - time).powi(2)).sum();
    let shared = points
        .iter()
        .map(|point| (point.0 - time) * (point.1 - value));
    let a_second = shared.sum::<f64>() / spread;
    let percent = a_second * 3600.0 / value * 100.0;
    percent.is_finite().then_some(percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_is_that_of_least_squares() {
        let hour = 3600.0;
        for (points, expected) in [
            (&[][..], None),
            (&[(1.0, 5.0)], None),
            (&[(1.0, 5.0), (1.0, 6.0)], None),
            (&[(0.0, 0.0), (hour, 0.0)], None),
            (&[(0.0, 100.0), (hour, 100.0)], Some(0.0)),
            (&[(0.0, 95.0), (hour, 105.0)], Some(10.0)),
            (&[(0.0, 105.0), (hour, 95.0)], Some(-10.0)),
            (&[(0.0, 99.0), (hour / 2.0, 102.0), (hour, 99.0)], Some(0.0)),
            // By hand: deviations of -1, 0, 1 in time and -2, -1, 3 in value; 5 / 2 a step.
            (&[(0.0, 98.0), (hour, 99.0), (2.0 * hour, 103.0)], Some(2.5)),
        ] {
            let found = percent_an_hour(points);
            let same = match (found, expected) {
                (Some(found), Some(expected)) => (found - expected).abs() < 1e-9,
                (found, expected) => found == expected,
            };
            assert!(same, "{points:?}: {found:?}, not {expected:?}");
        }
    }
}
