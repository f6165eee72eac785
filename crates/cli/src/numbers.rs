//! Whole numbers on the command line. An error says which numbers are allowed.

use std::{any::TypeId, fmt::Display, ops::RangeInclusive, str::FromStr, time::Duration};

use clap::Command;

/// The most worker threads: nobody has cores for more.
pub(crate) const THREADS_MAX: usize = 1024;

/// Parses a whole number in a range.
pub(crate) fn within<T>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text: &str| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("give a whole number from {} to {}", range.start(), range.end()))
    }
}

/// Lets options that take numbers and sizes take a value that begins with a minus. The number's parser then
/// says what is wrong with it, where clap would report an unknown option.
pub(crate) fn with_negatives(command: Command) -> Command {
    let numbers = [
        TypeId::of::<i32>(),
        TypeId::of::<u8>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
        TypeId::of::<Duration>(),
    ];
    let with_sign = move |arg: clap::Arg| {
        let read = arg.get_value_parser().type_id();
        if numbers.iter().any(|number| read == *number) { arg.allow_hyphen_values(true) } else { arg }
    };
    command.mut_args(with_sign).mut_subcommands(with_negatives)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_of_the_range_is_told_with_it() {
        let percent = within(0..=100_u8);
        assert_eq!((percent("0"), percent("100")), (Ok(0), Ok(100)));
        for bad in ["101", "-1", "abc", "", "1.5", "99999999999999999999999"] {
            assert_eq!(percent(bad), Err("give a whole number from 0 to 100".to_owned()), "{bad}");
        }
    }
}
