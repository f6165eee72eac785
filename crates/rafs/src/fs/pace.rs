//! When what is buffered is written out: T_f and T_t (rafs III-C), which can be changed while the file system is mounted.

use std::time::Duration;

use super::Fs;
use crate::buffer::Settings;

/// When it is written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// T_f: if less of the buffer is free, in percent.
    pub free_percent: u8,
    /// T_t: what is buffered for longer; names and attributes are committed as often.
    pub age: Duration,
}

impl Fs {
    /// When it is written out now.
    #[must_use]
    pub fn pace(&self) -> Pace {
        *self.shared.pace.lock()
    }

    /// Changes when it is written out, from now on.
    pub async fn set_pace(&self, pace: Pace) {
        let Pace { free_percent, age } = pace;
        let blocks = self.shared.options.buffer_blocks;
        let mut state = self.shared.state.lock().await;
        state.buffer.set(Settings { blocks, free_percent, age });
        *self.shared.pace.lock() = pace;
        drop(state);
        // What was not due may be so now, and a sleep that has begun is as long as it was.
        self.shared.kick.want();
    }
}
