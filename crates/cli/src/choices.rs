//! Arguments that take one of several words. Help and completions list each word with its meaning.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use stripewise_wire::{ClassChoice, DiscardChoice};

/// Parses one of several values by its name.
pub(crate) fn one_of<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
    about: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let value = |one: &T| PossibleValue::new(name(*one)).help(about(*one));
    PossibleValuesParser::new(all.iter().map(value)).map(move |given| {
        let found = all.iter().copied().find(|one| name(*one) == given);
        found.expect("clap lets only these names through")
    })
}

/// Parses what kind of device a member is.
pub(crate) fn class_parser() -> impl TypedValueParser<Value = ClassChoice> {
    one_of(ClassChoice::ALL, ClassChoice::name, |class| match class {
        ClassChoice::Hdd => "It rotates",
        ClassChoice::Ssd => "Flash",
    })
}

/// Parses whether discards are taken.
pub(crate) fn discard_parser() -> impl TypedValueParser<Value = DiscardChoice> {
    one_of(DiscardChoice::ALL, DiscardChoice::name, |discard| match discard {
        DiscardChoice::Auto => "If all members free what is discarded",
        DiscardChoice::On => "In any case: members that do not unmap are written zeroes",
        DiscardChoice::Off => "Never",
    })
}
