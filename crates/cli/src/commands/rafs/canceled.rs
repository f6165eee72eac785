//! A signal that ends fsck, with the exit code that fsck(8) has for it.

use std::{process, sync::Arc, thread, time::Duration};

use anyhow::Context;
use parking_lot::Mutex;

use crate::{interrupt::Interrupt, progress::StepsBar, said::note};

/// It was canceled.
pub(super) const CANCELED: u8 = 32;
/// How often to check for a signal.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What is under way.
#[derive(Clone)]
pub(super) struct Under {
    pub(super) bar: StepsBar,
    pub(super) mends: bool,
}

/// Waits for a signal.
pub(super) struct Watch(Arc<Mutex<Option<Under>>>);

impl Watch {
    /// From now on, a signal ends this process: of what may be written, nothing counts before the last block of a repair is.
    pub(super) fn begin(target: String) -> anyhow::Result<Self> {
        let interrupt = Interrupt::watch().context("signals cannot be watched for")?;
        let watch = Self(Arc::default());
        let watched = watch.0.clone();
        thread::Builder::new().name("stripewise-signals".into()).spawn(move || {
            while !interrupt.is_asked() {
                thread::sleep(LOOK_EVERY);
            }
            // Nothing begins or ends meanwhile.
            let under = watched.lock();
            under.iter().for_each(|under| under.bar.clear());
            let (why, left) = told(under.as_ref().is_some_and(|under| under.mends));
            note!("stripewise: {target}: {why}");
            process::exit((CANCELED | left).into());
        })?;
        Ok(watch)
    }

    /// Says what is under way from now on.
    pub(super) fn set(&self, under: Option<Under>) {
        *self.0.lock() = under;
    }
}

/// What to tell, and what the exit code has beside that it was canceled.
fn told(mends: bool) -> (&'static str, u8) {
    if mends {
        let why = "stopped while it was being mended, which is one step: it is as it was, or mended; look again by `stripewise fsck`";
        (why, super::fsck::ERRORS_LEFT)
    } else {
        ("canceled; nothing was changed", 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_repair_that_was_stopped_damage_may_be_left() {
        assert_eq!([told(false).1, told(true).1], [0, 4]);
    }
}
