//! When what is buffered is written out: T_f and T_t (rafs III-C), which can be changed while the file system is mounted.

use std::time::Duration;

use super::{Fs, MountOptions, policy::Technique};
use crate::buffer::Settings;

/// When it is written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// T_f: if less of the buffer is free, in percent.
    pub free_percent: u8,
    /// T_t: what is buffered for longer; names and attributes are committed as often.
    pub age: Duration,
}

impl Pace {
    /// That of a buffer. Without the technique of this name, what comes is written out at once.
    pub(super) fn settings(self, options: &MountOptions) -> Settings {
        let waits = !options.without.has(Technique::Buffer);
        let free_percent = if waits { self.free_percent } else { 100 };
        Settings { blocks: options.buffer_blocks, free_percent, age: self.age }
    }
}

impl Fs {
    /// When it is written out now.
    #[must_use]
    pub fn pace(&self) -> Pace {
        *self.shared.pace.lock()
    }

    /// Changes when it is written out, from now on.
    pub async fn set_pace(&self, pace: Pace) {
        let mut state = self.shared.state.lock().await;
        state.buffer.set(pace.settings(&self.shared.options));
        *self.shared.pace.lock() = pace;
        drop(state);
        // What was not due may be so now, and a sleep that has begun is as long as it was.
        self.shared.kick.want();
    }
}
