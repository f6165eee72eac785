//! A lock that tasks wait for: `futures-util`'s, or with the feature `loom` one that loom can look into.
//!
//! `futures-util` clones wakers while it holds a lock of the standard library. At that point a loom waker may
//! switch to another loom thread. All loom threads run on one real thread, so the lock would never be
//! released.

#[cfg(not(feature = "loom"))]
pub(crate) use futures_util::lock::Mutex as AsyncMutex;

#[cfg(feature = "loom")]
pub(crate) use for_loom::AsyncMutex;

#[cfg(feature = "loom")]
mod for_loom {
    use std::{
        future::poll_fn,
        ops::{Deref, DerefMut},
        task::Poll,
    };

    use stripewise_device::sync::{WaitList, seam::Mutex, wake_all};

    /// The value, and the tasks that wait for it. The task that holds the lock holds the value.
    pub(crate) struct AsyncMutex<T>(Mutex<(Option<T>, WaitList)>);

    pub(crate) struct Guard<'a, T> {
        lock: &'a AsyncMutex<T>,
        value: Option<T>,
    }

    impl<T> AsyncMutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(Mutex::new((Some(value), WaitList::default())))
        }

        pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
            let value = self.0.lock().0.take()?;
            Some(Guard { lock: self, value: Some(value) })
        }

        pub(crate) async fn lock(&self) -> Guard<'_, T> {
            poll_fn(|cx| {
                let mut state = self.0.lock();
                match state.0.take() {
                    Some(value) => Poll::Ready(Guard { lock: self, value: Some(value) }),
                    None => {
                        state.1.add(cx.waker());
                        Poll::Pending
                    }
                }
            })
            .await
        }
    }

    impl<T> Deref for Guard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.value.as_ref().expect("it is there until the guard is dropped")
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.value.as_mut().expect("it is there until the guard is dropped")
        }
    }

    impl<T> Drop for Guard<'_, T> {
        fn drop(&mut self) {
            let wakers = {
                let mut state = self.lock.0.lock();
                state.0 = self.value.take();
                state.1.take()
            };
            wake_all(wakers);
        }
    }
}
