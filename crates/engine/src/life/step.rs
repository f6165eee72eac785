//! Steps of the engine that run inside a caller's future, as part of its poll.
//!
//! A panic in the caller's own code is the caller's concern. A panic in an engine step unwinds through guards
//! that release rows and regions, while members may hold half of what is written. So the environment is told,
//! and it ends the process.

use stripewise_device::EnvHandle;

/// Runs a step of the engine. Without a panic this costs nothing.
#[inline(always)]
pub(crate) fn step<R>(env: &EnvHandle, f: impl FnOnce() -> R) -> R {
    let unwinds = Unwinds(env);
    let result = f();
    std::mem::forget(unwinds);
    result
}

/// Dropped only when a step panics.
struct Unwinds<'a>(&'a EnvHandle);

impl Drop for Unwinds<'_> {
    #[cold]
    fn drop(&mut self) {
        self.0.engine_panicked();
    }
}
