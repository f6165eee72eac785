//! The superblock's small types: level, role, times, the array's name, a member's flags.

use std::fmt;

use thiserror::Error;

use super::raw::MAX_DEVICES;

/// RAID level, md's numbers. Levels that no engine here runs are kept, to be shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Level {
    /// Striping, no redundancy.
    Raid0,
    /// Copies.
    Raid1,
    /// Parity on the last role.
    Raid4,
    /// Parity that moves from stripe to stripe.
    Raid5,
    /// Two parities, P and Q.
    Raid6,
    /// Anything else: -1 linear, -4 multipath, 10, or what a damaged block says.
    Other(i32),
}

impl Level {
    /// From md's number.
    #[must_use]
    pub const fn from_number(number: i32) -> Self {
        match number {
            0 => Self::Raid0,
            1 => Self::Raid1,
            4 => Self::Raid4,
            5 => Self::Raid5,
            6 => Self::Raid6,
            other => Self::Other(other),
        }
    }

    /// md's number.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::Raid0 => 0,
            Self::Raid1 => 1,
            Self::Raid4 => 4,
            Self::Raid5 => 5,
            Self::Raid6 => 6,
            Self::Other(other) => other,
        }
    }

    /// Members' worth of parity; copies of level 1 are not parity.
    #[must_use]
    pub const fn parity_members(self) -> u32 {
        match self {
            Self::Raid4 | Self::Raid5 => 1,
            Self::Raid6 => 2,
            Self::Raid0 | Self::Raid1 | Self::Other(_) => 0,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(-1) => f.write_str("linear"),
            Self::Other(-4) => f.write_str("multipath"),
            level => write!(f, "raid{}", level.number()),
        }
    }
}

/// What a device number does in the array: one entry of `dev_roles`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Holds this slot's data or parity. At most 0xfffc; see [`Role::from_number`].
    Active(u16),
    /// `MD_DISK_ROLE_SPARE`: no data; also how unused numbers are written.
    Spare,
    /// `MD_DISK_ROLE_FAULTY`: failed, its contents are stale.
    Faulty,
    /// `MD_DISK_ROLE_JOURNAL`: the journal device.
    Journal,
}

impl Role {
    const SPARE: u16 = 0xffff;
    const FAULTY: u16 = 0xfffe;
    const JOURNAL: u16 = 0xfffd;

    /// From md's number.
    #[must_use]
    pub const fn from_number(number: u16) -> Self {
        match number {
            Self::SPARE => Self::Spare,
            Self::FAULTY => Self::Faulty,
            Self::JOURNAL => Self::Journal,
            slot => Self::Active(slot),
        }
    }

    /// md's number.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::Active(slot) => slot,
            Self::Spare => Self::SPARE,
            Self::Faulty => Self::FAULTY,
            Self::Journal => Self::JOURNAL,
        }
    }
}

/// More roles than the superblock's block can hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "{count} roles do not fit: an md superblock holds at most {MAX_DEVICES}; use fewer members and spares"
)]
pub struct TooManyRoles {
    /// How many were asked for.
    pub count: usize,
}

/// `dev_roles`: what each device number does. Never longer than [`MAX_DEVICES`].
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Roles(Vec<Role>);

impl fmt::Debug for Roles {
    /// Leaves out the spares at the end, which are nearly all of them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = self.0.iter().rposition(|role| *role != Role::Spare).map_or(0, |last| last + 1);
        write!(f, "{:?} and {} spare", &self.0[..used], self.0.len() - used)
    }
}

impl Roles {
    /// These roles, by device number.
    pub fn new(roles: Vec<Role>) -> Result<Self, TooManyRoles> {
        if roles.len() > MAX_DEVICES as usize {
            return Err(TooManyRoles { count: roles.len() });
        }
        Ok(Self(roles))
    }

    /// `max_dev`: how many there are. Fits by construction.
    #[must_use]
    pub fn max_dev(&self) -> u32 {
        self.0.len() as u32
    }

    /// The role of device number `dev_number`, if there is such an entry.
    #[must_use]
    pub fn of(&self, dev_number: u32) -> Option<Role> {
        self.0.get(usize::try_from(dev_number).ok()?).copied()
    }

    /// Gives `dev_number` another role, adding spares before it where the block has room.
    pub fn set(&mut self, dev_number: u32, role: Role) -> Result<(), TooManyRoles> {
        let index = dev_number as usize;
        if index >= MAX_DEVICES as usize {
            return Err(TooManyRoles { count: index.saturating_add(1) });
        }
        if index >= self.0.len() {
            self.0.resize(index + 1, Role::Spare);
        }
        self.0[index] = role;
        Ok(())
    }

    /// All of them, by device number.
    #[must_use]
    pub fn as_slice(&self) -> &[Role] {
        &self.0
    }

    /// The device number in this slot of the array, if there is one.
    #[must_use]
    pub fn device_in(&self, slot: u16) -> Option<u32> {
        self.0.iter().position(|role| *role == Role::Active(slot)).map(|index| index as u32)
    }
}

/// md's time: 40 bits of seconds since 1970 and 24 bits of microseconds. Kernel and mdadm leave the
/// microseconds zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp {
    seconds: u64,
    microseconds: u32,
}

impl Timestamp {
    const SECONDS_BITS: u32 = 40;
    const SECONDS_MAX: u64 = (1 << Self::SECONDS_BITS) - 1;
    const MICROSECONDS_MAX: u32 = (1 << 24) - 1;

    /// This time, clamped to what the field can hold (the year 36812).
    #[must_use]
    pub fn new(seconds: u64, microseconds: u32) -> Self {
        Self {
            seconds: seconds.min(Self::SECONDS_MAX),
            microseconds: microseconds.min(Self::MICROSECONDS_MAX),
        }
    }

    /// From the field.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self { seconds: raw & Self::SECONDS_MAX, microseconds: (raw >> Self::SECONDS_BITS) as u32 }
    }

    /// The field.
    #[must_use]
    pub const fn raw(self) -> u64 {
        self.seconds | (self.microseconds as u64) << Self::SECONDS_BITS
    }

    /// Seconds since 1970.
    #[must_use]
    pub const fn seconds(self) -> u64 {
        self.seconds
    }

    /// Microseconds within the second.
    #[must_use]
    pub const fn microseconds(self) -> u32 {
        self.microseconds
    }
}

/// A name that `set_name` cannot hold.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("array name {name:?} has {} bytes and may have 31 without NUL: md keeps 32 with the end; use a shorter one", name.len())]
pub struct ArrayNameError {
    /// The name refused.
    pub name: String,
}

/// `set_name`: "host:name", padded with zeros. Not necessarily text: other programs wrote it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ArrayName([u8; 32]);

impl ArrayName {
    /// A name to write: at most 31 bytes, mdadm's limit.
    pub fn new(name: &str) -> Result<Self, ArrayNameError> {
        let mut bytes = [0; 32];
        if name.len() >= bytes.len() || name.contains('\0') {
            return Err(ArrayNameError { name: name.to_owned() });
        }
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Ok(Self(bytes))
    }

    /// The field as it is on disk.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The field as it is on disk.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn text(&self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        String::from_utf8_lossy(&self.0[..end]).into_owned()
    }
}

impl fmt::Display for ArrayName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl fmt::Debug for ArrayName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text())
    }
}

/// `devflags`: how the kernel treats this member. Kept as found; unknown bits too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct DeviceFlags(pub u8);

impl DeviceFlags {
    /// `WriteMostly1`: read from it only when no other member can answer.
    #[must_use]
    pub const fn write_mostly(self) -> bool {
        self.0 & 1 != 0
    }

    /// `FailFast1`: do not retry, fail at once.
    #[must_use]
    pub const fn fail_fast(self) -> bool {
        self.0 & 2 != 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_round_trip(level: i32, role: u16, time: u64) {
            prop_assert_eq!(Level::from_number(level).number(), level);
            prop_assert_eq!(Role::from_number(role).number(), role);
            prop_assert_eq!(Timestamp::from_raw(time).raw(), time);
        }
    }

    #[test]
    fn names_have_31_bytes_at_most() {
        let longest = "x".repeat(31);
        assert_eq!(ArrayName::new(&longest).unwrap().to_string(), longest);
        assert!(ArrayName::new(&"x".repeat(32)).is_err());
        assert!(ArrayName::new("a\0b").is_err());
        assert_eq!(ArrayName::from_bytes([b'y'; 32]).to_string().len(), 32);
    }

    #[test]
    fn roles_grow_up_to_the_block() {
        let mut roles = Roles::default();
        roles.set(2, Role::Active(0)).unwrap();
        assert_eq!(roles.as_slice(), [Role::Spare, Role::Spare, Role::Active(0)]);
        assert_eq!(roles.device_in(0), Some(2));
        assert!(roles.set(MAX_DEVICES - 1, Role::Faulty).is_ok());
        assert!(roles.set(MAX_DEVICES, Role::Faulty).is_err());
        assert_eq!(roles.max_dev(), MAX_DEVICES);
    }
}
