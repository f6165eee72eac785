//! Which option or command of this program answers an error of the engine, which knows nothing of options.

use stripewise::{ArrayError, AssembleError, CreateError, HostError};

/// What to type against an error, if anything helps.
pub(crate) fn hint(error: &anyhow::Error) -> Option<&'static str> {
    if let Some(error) = error.downcast_ref::<AssembleError>() {
        return of_assembling(error);
    }
    if let Some(error) = error.downcast_ref::<CreateError>() {
        return of_creating(error);
    }
    match error.downcast_ref::<HostError>()? {
        HostError::Assemble(error) => of_assembling(error),
        HostError::Create(error) => of_creating(error),
        _ => None,
    }
}

fn of_assembling(error: &AssembleError) -> Option<&'static str> {
    match error {
        AssembleError::SplitBrain { .. } => Some("--force takes the newer side"),
        AssembleError::Absent { .. } => Some("--run starts it degraded"),
        AssembleError::DirtyDegraded => Some("--force accepts that"),
        AssembleError::Array(ArrayError::Failed) => Some("`detail` tells which"),
        _ => None,
    }
}

fn of_creating(error: &CreateError) -> Option<&'static str> {
    match error {
        CreateError::SparesWithoutRedundancy => Some("the option is --spare-devices"),
        CreateError::Region { .. } => Some("the option is --bitmap-chunk"),
        CreateError::NothingSelected { .. } => Some("the option is --policy"),
        CreateError::TooSmall { .. } => Some("--size says how much is used of each"),
        CreateError::Assemble(error) => of_assembling(error),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn an_error_is_known_whatever_was_said_around_it() {
        let dirty = Err::<(), _>(AssembleError::DirtyDegraded).context("opening tank").unwrap_err();
        assert_eq!(hint(&dirty), Some("--force accepts that"));
        let spares = anyhow::Error::from(HostError::from(CreateError::SparesWithoutRedundancy));
        assert_eq!(hint(&spares), Some("the option is --spare-devices"));
        assert_eq!(hint(&anyhow::anyhow!("anything else")), None);
    }
}
