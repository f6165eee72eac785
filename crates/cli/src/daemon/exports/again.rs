//! Exports that a stop has closed, and that are opened again if the array goes on after all.

use std::path::Path;

use stripewise::export::nbd::Endpoint;
use stripewise_wire::{AttachChoice, DiscardChoice, Notes, ServeLimits};

use super::{super::patience::Deadline, Source, held::Held};
use crate::errors;

/// How the array is attached.
#[derive(Clone, Copy)]
pub(super) struct AttachSpec {
    pub(super) method: Option<AttachChoice>,
    pub(super) sector_bytes: Option<u32>,
    pub(super) discard: DiscardChoice,
}

/// How the array is served.
#[derive(Clone)]
pub(super) struct ServeSpec {
    pub(super) endpoint: Endpoint,
    pub(super) read_only: bool,
    pub(super) discard: DiscardChoice,
    pub(super) limits: ServeLimits,
}

/// What was exported when the array was to be stopped.
#[derive(Default)]
pub(super) struct Closed {
    pub(super) attached: Option<AttachSpec>,
    pub(super) served: Vec<ServeSpec>,
}

impl Closed {
    /// Opens all of it again. Returns what became of it, a sentence each.
    pub(super) fn open(self, held: &mut Held, source: &Source, deadline: Deadline) -> Notes {
        let (mut open, mut notes) = (Vec::new(), Notes::new());
        for spec in self.served {
            let again = format!("`stripewise serve {} {}`", source.name, option_of(&spec.endpoint));
            match held.serve(source, spec) {
                Ok(uri) => open.push(uri),
                Err(error) => notes.push(not_open("an NBD server", &error, &again)),
            }
        }
        if let Some(spec) = self.attached {
            match held.attach(source, spec, deadline) {
                Ok(path) => open.push(path),
                Err(error) => {
                    let again = format!("`stripewise attach {}`", source.name);
                    notes.push(not_open("the block device", &error, &again));
                }
            }
        }
        if !open.is_empty() {
            let open = open.join(", ");
            notes.push(format!(
                "its exports were closed, and are open again, so that clients have to connect again: {open}"
            ));
        }
        notes
    }
}

fn not_open(what: &str, error: &anyhow::Error, again: &str) -> String {
    format!("{what} was closed, and could not be opened again ({}): {again} does that", errors::line(error))
}

/// The option of `serve` for an endpoint.
fn option_of(endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Unix(path) => format!("--unix {}", Path::display(path)),
        Endpoint::Tcp { host, port } if host.contains(':') => format!("--bind [{host}]:{port}"),
        Endpoint::Tcp { host, port } => format!("--bind {host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_read_as_they_are_typed() {
        let tcp = |host: &str| option_of(&Endpoint::Tcp { host: host.to_owned(), port: 7 });
        assert_eq!(
            (tcp("10.0.0.1"), tcp("::1")),
            ("--bind 10.0.0.1:7".to_owned(), "--bind [::1]:7".to_owned())
        );
        assert_eq!(option_of(&Endpoint::Unix("/run/a".into())), "--unix /run/a");
    }
}
