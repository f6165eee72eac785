//! Replies: late ones, none, and those that come from tasks.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod common;

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process},
};
use stripewise_device::uring::{Runtime, RuntimeOptions};
use stripewise_fuse::{
    Message, Mount, MountOptions, Operation, Reply, Server, Session, Wishes, protocol::RequestId,
};
use stripewise_testkit::Need;

use common::{code, end, memory::Memory, pattern};

fn start(point: &Path, server: impl Server) -> Session {
    let mount = Mount::new(point, &MountOptions::default()).unwrap();
    Session::start(mount, &Wishes::default(), Arc::new(server), 1).unwrap()
}

/// A server that keeps its replies, drops them, or panics.
#[test]
fn a_reply_that_is_dropped_is_eio_and_one_may_come_late() {
    if !common::can_run(&[]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (kept, keeps) = mpsc::channel();
    let memory = Memory::default();
    let kept = Mutex::new(kept);
    let server = move |message: Message, reply: Reply| match message.request().operation {
        Operation::Lookup { name: b"dropped" } => drop(reply),
        Operation::Lookup { name: b"panic" } => panic!("as the test wants"),
        Operation::Lookup { name: b"late" } => kept.lock().unwrap().send(reply).unwrap(),
        _ => memory.handle(message, reply),
    };
    let session = start(folder.path(), server);
    let late = folder.path().join("late");
    let waiting = thread::spawn(move || code(fs::metadata(late)));
    let reply = keeps.recv().unwrap();
    assert_eq!(code(fs::metadata(folder.path().join("dropped"))), Some(Errno::IO));
    assert_eq!(code(fs::metadata(folder.path().join("panic"))), Some(Errno::IO));
    assert_eq!(code(fs::metadata(folder.path().join("other"))), Some(Errno::NOENT));
    reply.error(Errno::ACCESS);
    assert_eq!(waiting.join().unwrap(), Some(Errno::ACCESS));
    end(session);
}

/// The kernel tells of a caller that got a signal, and waits for the reply all the same.
#[test]
fn an_interrupt_names_the_request_that_it_is_about() {
    if !common::can_run(&[Need::Tool("ls")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (kept, keeps) = mpsc::channel();
    let (told, tells) = mpsc::channel::<RequestId>();
    let memory = Memory::default();
    let sides = Mutex::new((kept, told));
    let server = move |message: Message, reply: Reply| match message.request().operation {
        Operation::Lookup { name: b"late" } => sides.lock().unwrap().0.send(reply).unwrap(),
        Operation::Interrupt { request } => sides.lock().unwrap().1.send(request).unwrap(),
        _ => memory.handle(message, reply),
    };
    let session = start(folder.path(), server);
    let mut child = Command::new("ls").arg(folder.path().join("late")).stderr(Stdio::null()).spawn().unwrap();
    let reply = keeps.recv().unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(tells.recv_timeout(Duration::from_secs(20)), Ok(reply.id()));
    reply.error(Errno::INTR);
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
    end(session);
}

/// What a file system does: each request is a task of the executor, and the data of a WRITE stay where they came.
#[test]
fn tasks_of_the_executor_answer() {
    if !common::can_run(&[]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let runtime = Runtime::start(&RuntimeOptions::default().threads(2)).unwrap();
    let env = runtime.env();
    let memory = Arc::new(Memory::default());
    let server = move |message: Message, reply: Reply| {
        let memory = memory.clone();
        env.spawn(Box::pin(async move {
            if let Operation::Write(write) = message.request().operation {
                let len = write.data.len();
                let (offset, node) = (write.offset_bytes, message.request().node);
                let data = message.into_data();
                assert!(data.len() == len && data.as_ptr().addr().is_multiple_of(4096));
                memory.tree().get(node.0).unwrap().write(offset, &data);
                reply.written(len as u32);
            } else {
                memory.handle(message, reply);
            }
        }));
    };
    let session = start(folder.path(), server);
    let content = pattern(3 << 20);
    fs::write(folder.path().join("file"), &content).unwrap();
    assert!(fs::read(folder.path().join("file")).unwrap() == content);
    end(session);
}
