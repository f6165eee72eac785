//! The lines of the control socket, and how commands and daemons of different releases understand each other.
//!
//! Each line carries the number of the protocol it was written by. What a reader does not know it passes over, and what it
//! misses it takes by default, so that `status`, `stop` and `detach` work between releases: an array that runs must never
//! depend on the program that started it. The number is raised when a reader of the one before would misunderstand.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{Reply, Request};

/// The protocol that this program speaks.
pub(crate) const PROTOCOL: u32 = 1;

/// This release, for people.
const RELEASE: &str = env!("CARGO_PKG_VERSION");

#[derive(Serialize, Deserialize)]
struct Numbered<T> {
    #[serde(flatten)]
    said: T,
    /// 0 where there is none.
    #[serde(default)]
    protocol: u32,
}

/// The number alone, of a line that says what is not known here.
#[derive(Deserialize)]
struct Number {
    #[serde(default)]
    protocol: u32,
}

/// Why a line is not understood.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    /// It was written by another protocol.
    #[error(
        "it speaks protocol {theirs} of the control socket, and this is stripewise {RELEASE}, protocol {PROTOCOL}: {source}"
    )]
    Other { theirs: u32, source: serde_json::Error },
    /// It is none of any protocol.
    #[error("it is not understood: {0}")]
    Garbled(serde_json::Error),
}

fn line(said: impl Serialize) -> serde_json::Result<String> {
    let mut line = serde_json::to_string(&Numbered { said, protocol: PROTOCOL })?;
    line.push('\n');
    Ok(line)
}

fn read<T: DeserializeOwned>(line: &str) -> Result<T, WireError> {
    serde_json::from_str::<Numbered<T>>(line).map(|numbered| numbered.said).map_err(|source| {
        match serde_json::from_str::<Number>(line) {
            Ok(Number { protocol: theirs }) if theirs != PROTOCOL => WireError::Other { theirs, source },
            _ => WireError::Garbled(source),
        }
    })
}

impl Request {
    pub(crate) fn line(&self) -> serde_json::Result<String> {
        line(self)
    }

    pub(crate) fn read(line: &str) -> Result<Self, WireError> {
        read(line)
    }
}

impl Reply {
    pub(crate) fn line(&self) -> serde_json::Result<String> {
        line(self)
    }

    pub(crate) fn read(line: &str) -> Result<Self, WireError> {
        read(line)
    }
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
        let said = read(r#"{"melted":{},"protocol":9}"#).unwrap_err().to_string();
        assert!(said.contains("protocol 9") && said.contains("protocol 1"), "{said}");
        assert!(matches!(read("nonsense"), Err(WireError::Garbled(_))));
    }

    #[test]
    fn what_is_written_is_read() {
        let request = Request::Add { device: "/dev/x".into(), force: true, class: None };
        let read = Request::read(&request.line().unwrap()).unwrap();
        assert!(matches!(read, Request::Add { device, force: true, class: None } if device == "/dev/x"));
        let line = Reply::Done(vec!["a".into()]).line().unwrap();
        assert!(line.starts_with(r#"{"done":["a"]"#) && line.ends_with("}\n"), "{line}");
        assert!(matches!(Reply::read(&line), Ok(Reply::Done(notes)) if notes == ["a"]));
        assert!(matches!(
            Request::read(r#"{"command":"add","device":"/dev/x"}"#),
            Ok(Request::Add { force: false, .. })
        ));
    }
}
