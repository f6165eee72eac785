//! Write selection policies by name.

use anyhow::ensure;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use stripewise::{
    geometry::Level,
    internals::{
        format::extension::MemberClass,
        locking::{PRESETS, Preset},
        plan::selection::{DEFAULT_POLICY, POLICIES, Policy, policy, policy_for},
    },
};

/// Parses a policy's name on the command line. Help and completions list the names.
pub(crate) fn policy_parser() -> impl TypedValueParser<Value = &'static Policy> {
    let value = |policy: &&'static Policy| PossibleValue::new(policy.name).help(policy.summary);
    PossibleValuesParser::new(POLICIES.iter().map(value)).try_map(|name| policy(&name))
}

/// Parses the name of a lock preset on the command line.
pub(crate) fn preset_parser() -> impl TypedValueParser<Value = &'static Preset> {
    let value = |preset: &'static Preset| PossibleValue::new(preset.name).help(preset.about);
    PossibleValuesParser::new(PRESETS.iter().map(value))
        .map(|name| Preset::named(&name).expect("clap lets only these names through"))
}

/// Refuses a level that has no write selection policy.
pub(crate) fn check_selects(level: i32) -> anyhow::Result<()> {
    let has_parity = Level::from_number(level).is_some_and(Level::has_parity);
    ensure!(has_parity, "level {level} keeps no parity: there is no write selection policy");
    Ok(())
}

/// All policies, each with the new arrays for which it is chosen if none is given.
pub(crate) fn all() -> impl Iterator<Item = (&'static Policy, Option<&'static str>)> {
    let rotating = policy_for([MemberClass::Hdd]);
    POLICIES.iter().map(move |policy| {
        let chosen_for = match policy.name {
            name if name == rotating.name => Some("with hard disks"),
            name if name == DEFAULT_POLICY.name => Some("without hard disks"),
            _ => None,
        };
        (*policy, chosen_for)
    })
}
