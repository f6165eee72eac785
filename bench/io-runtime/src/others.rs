//! The same load on the runtimes of others.

use crate::load::{BLOCK, Case, Walk, buffer};
use std::cell::Cell;
use std::fs::File;
use std::os::fd::{FromRawFd, IntoRawFd};
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// As it comes, or with the ring set up as ours is.
pub fn compio(case: Case, tuned: bool, file: File, time: Duration) -> u64 {
    use compio::io::{AsyncReadAt, AsyncWriteAt};
    let mut proactor = compio::driver::ProactorBuilder::new();
    if tuned {
        proactor.capacity(256).coop_taskrun(true).single_issuer(true).defer_taskrun(true);
    }
    let runtime = compio::runtime::RuntimeBuilder::new().with_proactor(proactor).build().expect("a runtime");
    runtime.block_on(async {
        // SAFETY: the descriptor is open, and ours to give away.
        let file = unsafe { compio::fs::File::from_raw_fd(file.into_raw_fd()) };
        let done = Rc::new(Cell::new(0));
        let tasks: Vec<_> = Walk::all(case, time)
            .into_iter()
            .map(|mut walk| {
                let (mut file, done, mut buffer) = (file.clone(), done.clone(), buffer());
                compio::runtime::spawn(async move {
                    while let Some(offset) = walk.next() {
                        let result;
                        compio::BufResult(result, buffer) = match case {
                            Case::Write => file.write_at(buffer, offset).await,
                            _ => file.read_at(buffer, offset).await,
                        };
                        case.expect(result.expect("an I/O") as i32);
                        done.set(done.get() + 1);
                    }
                    std::mem::forget(buffer);
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("a task");
        }
        done.get()
    })
}

pub fn monoio(case: Case, file: File, time: Duration) -> u64 {
    let mut runtime =
        monoio::RuntimeBuilder::<monoio::IoUringDriver>::new().with_entries(256).build().expect("a runtime");
    runtime.block_on(async {
        let file = Rc::new(monoio::fs::File::from_std(file).expect("a file"));
        let done = Rc::new(Cell::new(0));
        let tasks: Vec<_> = Walk::all(case, time)
            .into_iter()
            .map(|mut walk| {
                let (file, done, mut buffer) = (file.clone(), done.clone(), buffer());
                monoio::spawn(async move {
                    while let Some(offset) = walk.next() {
                        let result;
                        (result, buffer) = match case {
                            Case::Write => file.write_at(buffer, offset).await,
                            _ => file.read_at(buffer, offset).await,
                        };
                        case.expect(result.expect("an I/O") as i32);
                        done.set(done.get() + 1);
                    }
                    std::mem::forget(buffer);
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        done.get()
    })
}

/// What tokio itself does for files: a thread of the pool per I/O.
pub fn tokio(case: Case, file: File, time: Duration) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let file = Arc::new(file);
        let done = Rc::new(Cell::new(0));
        let tasks: Vec<_> = Walk::all(case, time)
            .into_iter()
            .map(|mut walk| {
                let (file, done, mut buffer) = (file.clone(), done.clone(), buffer());
                tokio::task::spawn_local(async move {
                    while let Some(offset) = walk.next() {
                        let (file, mut moved) = (file.clone(), buffer);
                        let io = move || {
                            let result = match case {
                                Case::Write => file.write_at(&moved, offset),
                                _ => file.read_at(&mut moved[..BLOCK], offset),
                            };
                            (result, moved)
                        };
                        let result;
                        (result, buffer) = tokio::task::spawn_blocking(io).await.expect("a thread");
                        case.expect(result.expect("an I/O") as i32);
                        done.set(done.get() + 1);
                    }
                    std::mem::forget(buffer);
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("a task");
        }
        done.get()
    })
}
