//! What is told of damage that an opening finds in members' extension areas, and of what it does about it.

use std::collections::BTreeMap;

use stripewise_format::{
    bitmap::{NoPage, PageError},
    extension::{CopyState, ExtensionError, HeaderCopy, HeaderError, OtherCopy, SuperblockOrigin},
};

use super::candidates::{Chosen, Part, name};
use crate::metadata::examine::Examination;

/// Tells of each member that takes part what is damaged of its extension header, and what becomes of that.
pub(super) fn tell_damaged_headers(examined: &[Examination], chosen: &Chosen, is_read_only: bool) {
    for examination in chosen.parts.iter().map(|part| &examined[part.index()]) {
        if let Some(damage) = damaged_header(examination, is_read_only) {
            tracing::warn!(member = name(examination), "{damage}");
        }
    }
}

fn damaged_header(examination: &Examination, is_read_only: bool) -> Option<String> {
    let becomes = if is_read_only { "stays as it is, as the array is read-only" } else { "is written anew" };
    match &examination.extension {
        Ok((_, CopyState { used, other: OtherCopy::Invalid(error) })) => {
            let which = if used.other() == HeaderCopy::A { "first" } else { "second" };
            Some(format!(
                "the {which} copy of its extension header {}: the other copy counts, and this one {becomes}",
                what_is_wrong(*error)
            ))
        }
        Err(ExtensionError::BothDamaged { a, b }) if is_none(*a) && is_none(*b) => Some(format!(
            "it has no extension header, and other bytes are where its copies belong, as another md implementation may leave \
             them: it {becomes}"
        )),
        Err(ExtensionError::BothDamaged { a, b }) => Some(format!(
            "both copies of its extension header are damaged (the first {}; the second {}): it {becomes}, without what it kept \
             of this member: class, measured times and strides, and how much was written to it",
            what_is_wrong(*a),
            what_is_wrong(*b)
        )),
        Err(error @ ExtensionError::Conflict { .. }) => Some(format!("{error}; the header {becomes}")),
        Ok(_) | Err(ExtensionError::Absent | ExtensionError::Unusable(_)) => None,
    }
}

/// Whether nothing speaks for it that a header ever was there.
fn is_none(error: HeaderError) -> bool {
    matches!(error, HeaderError::Blank | HeaderError::NoMagic)
}

fn what_is_wrong(error: HeaderError) -> String {
    match error {
        // Nothing was read of it.
        HeaderError::TooShort { .. } => "cannot be read".to_owned(),
        other => format!("is damaged ({other})"),
    }
}

/// Why the bitmap of an array that was not stopped cleanly cannot be trusted. None if it can be.
pub(super) fn why_untrusted(examined: &[Examination], chosen: &Chosen) -> Option<String> {
    let mut members: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let active = chosen.parts.iter().filter(|part| matches!(part, Part::Active { .. }));
    for examination in active.map(|part| &examined[part.index()]) {
        if examination.origin == SuperblockOrigin::Foreign {
            members.entry(why_foreign(examination)).or_default().push(name(examination));
        }
    }
    let reasons: Vec<_> =
        members.iter().map(|(why, members)| format!("{why} {}", members.join(", "))).collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// Why it is not known that Stripewise wrote a member's superblock last, in words that the member's name follows.
fn why_foreign(examination: &Examination) -> &'static str {
    match examination.extension {
        Ok(_) => "another md implementation was the last to write",
        Err(ExtensionError::Absent) => "there is no extension header, as after another md implementation, on",
        Err(ExtensionError::BothDamaged { a, b }) if is_none(a) && is_none(b) => {
            "there is no extension header, as after another md implementation, on"
        }
        Err(ExtensionError::BothDamaged { .. } | ExtensionError::Conflict { .. }) => {
            "the extension header is damaged on"
        }
        Err(ExtensionError::Unusable(_)) => "this version cannot use the extension header of",
    }
}

/// How many pages of the bitmap are damaged, by member.
#[derive(Default)]
pub(super) struct DamagedPages(BTreeMap<String, usize>);

impl DamagedPages {
    /// Counts a page of which a member holds no valid copy, unless it never did.
    pub(super) fn count(&mut self, examination: &Examination, page: NoPage) {
        let never_was = |error| matches!(error, PageError::NoMagic { found: 0 } | PageError::Array { .. });
        if !(never_was(page.a) && never_was(page.b)) {
            *self.0.entry(name(examination)).or_default() += 1;
        }
    }

    pub(super) fn tell(&self) {
        for (member, pages) in &self.0 {
            tracing::warn!(
                member,
                pages,
                "pages of its write-intent bitmap are damaged, or cannot be read: what another member holds of them counts, and \
                 where no member does all is marked; unless the array is read-only they are written anew"
            );
        }
    }
}
