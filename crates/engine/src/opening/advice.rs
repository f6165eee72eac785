//! What is worth saying about an array's shape and the kinds of its members.

use stripewise_format::extension::MemberClass;

use crate::shape::geometry::Level;

/// Warnings about a level over members of these classes, by role; none if there is nothing to say.
pub fn advice(level: Level, classes: &[MemberClass]) -> Vec<String> {
    let count = |class: MemberClass| classes.iter().filter(|one| **one == class).count();
    let (hdds, ssds) = (count(MemberClass::Hdd), count(MemberClass::Ssd));
    if hdds == 0 || ssds == 0 {
        return Vec::new();
    }
    match level {
        Level::Raid4 => flash_in_data(classes).into_iter().collect(),
        Level::Raid5 | Level::Raid6 => {
            // Level 4 has one parity.
            let at_a_cost = match level {
                Level::Raid6 => ", but survives the loss of one member, where level 6 survives two",
                _ => "",
            };
            vec![format!(
                "{ssds} of {} members are flash, and level {} moves parity over all of them: most small writes wait for \
                 hard disks alone. Level 4 with parity on the SSD does small writes faster{at_a_cost}",
                classes.len(),
                level.number()
            )]
        }
        _ => Vec::new(),
    }
}

/// Warns about level 4 with flash among its data members, where flash gains little.
fn flash_in_data(classes: &[MemberClass]) -> Option<String> {
    let (parity, data) = classes.split_last()?;
    let flash = data.iter().filter(|class| **class == MemberClass::Ssd).count();
    if flash == 0 {
        return None;
    }
    Some(match parity {
        MemberClass::Hdd => "parity is on a hard disk and data on flash: every small write waits for that disk, and the flash \
                             gains nothing. Give parity to the SSD"
            .to_owned(),
        MemberClass::Ssd => format!(
            "{flash} of {} members that hold data are flash, and parity is on flash, too: only what lies on that data is \
             faster, and full stripes wait for the hard disks. Give data to a hard disk instead, and keep the SSD as a \
             spare for parity",
            data.len()
        ),
        MemberClass::Unknown => "data is on flash, and the member for parity is missing or of unknown kind: every small \
                                 write waits for it, and the flash gains nothing if it is a hard disk. Say what it is, \
                                 or have parity on an SSD"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use MemberClass::{Hdd, Ssd, Unknown};

    use super::*;

    #[test]
    fn only_flash_in_the_wrong_place_is_warned_about() {
        assert!(advice(Level::Raid4, &[Hdd, Hdd, Hdd, Ssd]).is_empty(), "RAID4S");
        assert!(advice(Level::Raid4, &[Ssd, Hdd, Hdd, Hdd])[0].contains("parity is on a hard disk"));
        assert!(advice(Level::Raid4, &[Hdd, Ssd, Hdd, Ssd])[0].starts_with("1 of 3 members that hold data"));
        assert!(advice(Level::Raid4, &[Ssd, Hdd, Unknown])[0].contains("missing or of unknown kind"));
        assert!(advice(Level::Raid4, &[Hdd, Hdd, Unknown]).is_empty(), "it may be an SSD that comes");
        assert!(advice(Level::Raid5, &[Hdd, Hdd, Hdd, Ssd])[0].starts_with("1 of 4 members are flash"));
        assert!(!advice(Level::Raid5, &[Hdd, Hdd, Hdd, Ssd])[0].contains("survives"), "as level 4 does");
        assert!(advice(Level::Raid6, &[Hdd, Hdd, Hdd, Ssd])[0].ends_with("where level 6 survives two"));
        assert!(advice(Level::Raid5, &[Ssd, Ssd, Ssd]).is_empty());
        assert!(advice(Level::Raid5, &[Hdd, Unknown, Unknown]).is_empty());
        assert!(advice(Level::Raid0, &[Hdd, Ssd]).is_empty());
    }
}
