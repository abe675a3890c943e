//! The time of a signature.

use std::time::{SystemTime, UNIX_EPOCH};

/// A moment as signatures write it, in UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// `20130524`.
    pub(super) date: String,
    /// `20130524T000000Z`.
    pub(super) time: String,
}

impl Moment {
    pub(super) fn now() -> Self {
        // A clock before 1970 is wrong in any case: the store says that it is.
        Self::at(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
    }

    /// So many seconds after 1970.
    pub(super) fn at(seconds: u64) -> Self {
        let (days, second) = (seconds / DAY, seconds % DAY);
        let (year, month, day) = civil(days);
        let date = format!("{year:04}{month:02}{day:02}");
        let time = format!("{date}T{:02}{:02}{:02}Z", second / 3600, second / 60 % 60, second % 60);
        Self { date, time }
    }
}

/// Year, month and day of the day that is so many days after 1970-01-01, by whole cycles of the Gregorian calendar from
/// 0000-03-01: with March first, the leap day is the last of a year.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (cycle, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let first = (153 * month + 2) / 5;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (cycle * 400 + year + later, month, day - first + 1)
}

const DAY: u64 = 24 * 60 * 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (seconds, time) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (951_868_800, "20000301T000000Z"),
            (1_369_353_600, "20130524T000000Z"),
            (1_704_067_199, "20231231T235959Z"),
            (4_107_542_399, "21000228T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            let moment = Moment::at(seconds);
            assert_eq!(moment.time, time);
            assert_eq!(moment.date, time[..8]);
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let (mut year, mut month, mut day) = (1970, 1, 1);
        let length =
            |month: u64| lengths.iter().zip(1..).find(|(_, number)| *number == month).map_or(0, |(days, _)| *days);
        for days in 0..150_000 {
            assert_eq!(civil(days), (year, month, day));
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let last = length(month) + u64::from(leap && month == 2);
            (day, month) = if day == last { (1, month + 1) } else { (day + 1, month) };
            (month, year) = if month == 13 { (1, year + 1) } else { (month, year) };
        }
    }
}
