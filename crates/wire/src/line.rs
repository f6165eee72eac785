//! The lines of the control socket, and how commands and daemons of different releases understand each other.
//!
//! Each line carries the number of the protocol it was written by. What a reader does not know it passes
//! over, and what it misses it takes by default, so that `status`, `stop` and `detach` work between releases:
//! an array that runs must never depend on the program that started it. The number is raised when a reader of
//! the one before would misunderstand, and when a command gets an option: a reader that passes it over would
//! do something else than was asked. So a line also says the least number that its reader must speak
//! ([`Request::needs`]), and a command finds out first whether the daemon does.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{DiscardChoice, Reply, Request, ServeLimits};

/// The protocol that this program speaks.
pub const PROTOCOL: u32 = 5;

/// The first protocols that know these options. Protocol 0 is every release from before there was a number.
const SECTOR_SIZE_SINCE: u32 = 1;
const LIMITS_SINCE: u32 = 1;
const CLASS_SINCE: u32 = 1;
const DISCARD_SINCE: u32 = 2;
const CACHE_SINCE: u32 = 3;
const RAFS_SINCE: u32 = 4;
const NO_RECOVERY_SINCE: u32 = 5;

/// This release, for people.
const RELEASE: &str = env!("CARGO_PKG_VERSION");

#[derive(Serialize, Deserialize)]
struct Numbered<T> {
    #[serde(flatten)]
    said: T,
    /// 0 where there is none.
    #[serde(default)]
    protocol: u32,
    /// What a reader must speak at least.
    #[serde(default, skip_serializing_if = "is_zero")]
    needs: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The number alone, of a line that says what is not known here.
#[derive(Deserialize)]
struct Number {
    #[serde(default)]
    protocol: u32,
}

/// Why a line is not understood.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// It was written by another protocol.
    #[error(
        "it speaks protocol {theirs} of the control socket, and this is stripewise {RELEASE}, protocol {PROTOCOL}: {source}"
    )]
    Other {
        /// Its number.
        theirs: u32,
        /// What could not be read.
        source: serde_json::Error,
    },
    /// An option in it would be lost.
    #[error(
        "it has an option of protocol {needs} of the control socket, and this is stripewise {RELEASE}, protocol {PROTOCOL}"
    )]
    Newer {
        /// The least protocol that knows it.
        needs: u32,
    },
    /// It is none of any protocol.
    #[error("it is not understood: {0}")]
    Garbled(serde_json::Error),
}

fn line(said: impl Serialize, needs: u32) -> serde_json::Result<String> {
    let mut line = serde_json::to_string(&Numbered { said, protocol: PROTOCOL, needs })?;
    line.push('\n');
    Ok(line)
}

fn read<T: DeserializeOwned>(line: &str) -> Result<Numbered<T>, WireError> {
    serde_json::from_str::<Numbered<T>>(line).map_err(|source| match serde_json::from_str::<Number>(line) {
        Ok(Number { protocol: theirs }) if theirs != PROTOCOL => WireError::Other { theirs, source },
        _ => WireError::Garbled(source),
    })
}

/// The command alone, of a line whose rest is not known here.
#[derive(Deserialize)]
struct Named {
    command: String,
}

impl Request {
    /// The line that asks for it, with its end.
    ///
    /// # Errors
    /// Those of serde; none are known.
    pub fn line(&self) -> serde_json::Result<String> {
        line(self, self.needs())
    }

    /// Reads a request. The ones that every release must have obeyed are, whatever else their line says:
    /// `status`, and `detach` and `stop` without force.
    ///
    /// # Errors
    /// [`WireError`], of every other line that is not understood in full.
    pub fn read(line: &str) -> Result<Self, WireError> {
        match read(line) {
            Ok(Numbered { needs, .. }) if needs > PROTOCOL => {
                Self::by_name(line).ok_or(WireError::Newer { needs })
            }
            Ok(Numbered { said, .. }) => Ok(said),
            Err(error) => Self::by_name(line).ok_or(error),
        }
    }

    /// What a line means by its command alone: never by force.
    fn by_name(line: &str) -> Option<Self> {
        let Named { command } = serde_json::from_str(line).ok()?;
        match command.as_str() {
            "status" => Some(Self::Status),
            "detach" => Some(Self::Detach { force: false }),
            "stop" => Some(Self::Stop { force: false, steps: false }),
            _ => None,
        }
    }

    /// The least protocol that knows all its options; 0 if every release does.
    pub fn needs(&self) -> u32 {
        let since = |is_used: bool, since: u32| if is_used { since } else { 0 };
        let of_discard = |discard: &DiscardChoice| since(*discard != DiscardChoice::default(), DISCARD_SINCE);
        match self {
            Self::Add { class, .. } | Self::Replace { class, .. } => since(class.is_some(), CLASS_SINCE),
            Self::Attach { sector_bytes, discard, .. } => {
                since(sector_bytes.is_some(), SECTOR_SIZE_SINCE).max(of_discard(discard))
            }
            Self::Serve { limits, discard, .. } => {
                since(*limits != ServeLimits::default(), LIMITS_SINCE).max(of_discard(discard))
            }
            Self::Cache { .. } => CACHE_SINCE,
            Self::Mount { choice } if choice.no_recovery => NO_RECOVERY_SINCE,
            Self::Mkfs { .. } | Self::Mount { .. } | Self::Fsck { .. } | Self::Usage => RAFS_SINCE,
            _ => 0,
        }
    }
}

impl Reply {
    /// The line that says it, with its end.
    ///
    /// # Errors
    /// Those of serde; none are known.
    pub fn line(&self) -> serde_json::Result<String> {
        line(self, 0)
    }

    /// Reads an answer. What a later release adds to it is passed over.
    ///
    /// # Errors
    /// [`WireError`], of a line that is not understood.
    pub fn read(line: &str) -> Result<Self, WireError> {
        read(line).map(|numbered| numbered.said)
    }
}

/// The protocol of a line; 0 where it has no number.
pub fn protocol_of(line: &str) -> u32 {
    serde_json::from_str(line).map_or(0, |Number { protocol }| protocol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_other_releases_are_read_as_far_as_they_can_be() {
        let read = |line: &str| Reply::read(line);
        let Ok(Reply::Status(status)) =
            read(r#"{"status":{"name":"a","size_bytes":5,"flavour":"x"},"protocol":9}"#)
        else {
            panic!("a later daemon's status");
        };
        assert_eq!((status.name.as_str(), status.size_bytes, status.pid), ("a", 5, 0));
        assert!(
            matches!(read(r#"{"stopped":{}}"#), Ok(Reply::Stopped { unclean: None, .. })),
            "an earlier daemon"
        );
        assert!(
            matches!(
                read(r#"{"working":{"done_bytes":7}}"#),
                Ok(Reply::Working { done_bytes: 7, work: None, step: None })
            ),
            "a daemon that told no steps"
        );
        let said = read(r#"{"melted":{},"protocol":9}"#).unwrap_err().to_string();
        assert!(said.contains("protocol 9") && said.contains(&format!("protocol {PROTOCOL}")), "{said}");
        assert!(matches!(read("nonsense"), Err(WireError::Garbled(_))));
    }

    #[test]
    fn what_is_written_is_read() {
        let request = Request::Add { device: "/dev/x".into(), force: true, class: None, steps: false };
        let read = Request::read(&request.line().unwrap()).unwrap();
        assert!(
            matches!(read, Request::Add { device, force: true, class: None, steps: false } if device == "/dev/x")
        );
        let line = Reply::Done(vec!["a".into()]).line().unwrap();
        assert!(line.starts_with(r#"{"done":["a"]"#) && line.ends_with("}\n"), "{line}");
        assert!(matches!(Reply::read(&line), Ok(Reply::Done(notes)) if notes == ["a"]));
        assert!(matches!(
            Request::read(r#"{"command":"add","device":"/dev/x"}"#),
            Ok(Request::Add { force: false, .. })
        ));
    }

    /// Every command as it was written before there was a number.
    #[test]
    fn commands_from_before_there_was_a_number_are_understood() {
        for line in [
            r#"{"command":"status"}"#,
            r#"{"command":"stripes","from":0,"to":9}"#,
            r#"{"command":"add","device":"/dev/x","force":false}"#,
            r#"{"command":"add","device":"/dev/x","force":false,"class":null}"#,
            r#"{"command":"fail","member":"/dev/x"}"#,
            r#"{"command":"remove","member":"/dev/x"}"#,
            r#"{"command":"replace","member":"/dev/x","with":"/dev/y","force":true}"#,
            r#"{"command":"scrub","action":"start"}"#,
            r#"{"command":"speed","min_bytes_per_s":1,"max_bytes_per_s":null}"#,
            r#"{"command":"attach","method":null}"#,
            r#"{"command":"attach","method":"fuse"}"#,
            r#"{"command":"detach","force":false}"#,
            r#"{"command":"serve","address":"/run/x","read_only":false}"#,
            r#"{"command":"unserve","address":null}"#,
            r#"{"command":"policy","policy":"cost"}"#,
            r#"{"command":"traced","since":0}"#,
            r#"{"command":"trace-stop"}"#,
            r#"{"command":"load-status"}"#,
            r#"{"command":"stop","force":true}"#,
        ] {
            assert!(Request::read(line).is_ok(), "{line}: {:?}", Request::read(line));
        }
    }

    #[test]
    fn status_detach_and_stop_are_obeyed_whatever_else_is_said() {
        let read = |line: &str| Request::read(line).unwrap();
        assert!(matches!(read(r#"{"command":"status","of":["a"],"protocol":9}"#), Request::Status));
        let stop = r#"{"command":"stop","force":{"after_s":9},"protocol":9}"#;
        assert!(
            matches!(read(stop), Request::Stop { force: false, .. }),
            "what is not understood is no force"
        );
        assert!(matches!(read(r#"{"command":"detach","force":"lazily"}"#), Request::Detach { force: false }));
        let later = r#"{"command":"stop","force":true,"protocol":9,"needs":9}"#;
        assert!(
            matches!(read(later), Request::Stop { force: false, .. }),
            "an option that is lost may take the force away"
        );
        assert!(matches!(read(r#"{"command":"status","needs":9}"#), Request::Status));
        assert!(matches!(read(r#"{"command":"detach","needs":9}"#), Request::Detach { force: false }));
        let add = Request::read(r#"{"command":"add","device":"/dev/x","force":false,"needs":9}"#);
        assert!(matches!(add, Err(WireError::Newer { needs: 9 })));
        assert!(Request::read(r#"{"command":"add","device":7}"#).is_err());
    }

    #[test]
    fn an_option_says_what_its_reader_must_speak() {
        let attach = |sector_bytes, discard| Request::Attach { method: None, sector_bytes, discard };
        assert_eq!(attach(None, DiscardChoice::Auto).needs(), 0);
        assert_eq!(attach(Some(4096), DiscardChoice::Auto).needs(), SECTOR_SIZE_SINCE);
        assert_eq!(attach(Some(4096), DiscardChoice::Off).needs(), DISCARD_SINCE);
        let limits = ServeLimits { connections: Some(1), ..ServeLimits::default() };
        let serve = |limits| Request::Serve {
            address: "/x".into(),
            read_only: false,
            discard: DiscardChoice::Auto,
            limits,
        };
        assert_eq!((serve(ServeLimits::default()).needs(), serve(limits).needs()), (0, LIMITS_SINCE));
        assert_eq!(
            (Request::Fsck { mend: true }.needs(), Request::Worked { work: None }.needs()),
            (RAFS_SINCE, 0)
        );
        let line = attach(None, DiscardChoice::On).line().unwrap();
        assert_eq!((protocol_of(&line), Request::read(&line).is_ok()), (PROTOCOL, true));
        let later = line.replace(r#""needs":2"#, r#""needs":99"#);
        let said = Request::read(&later).unwrap_err().to_string();
        assert!(said.contains("protocol 99"), "{said}");
    }
}
