//! Listening sockets: a unix socket file that only its owner may use, or a TCP port.

use std::{
    fs, io,
    os::{
        fd::OwnedFd,
        unix::{
            fs::{FileTypeExt, MetadataExt},
            net::UnixStream,
        },
    },
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::{fs::FlockOperation, io::Errno};

use super::ServerError;
use crate::nbd::Endpoint;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// A bound, listening socket.
pub(super) struct Bound {
    pub(super) fd: OwnedFd,
    /// Its actual address: with the port that was chosen.
    pub(super) endpoint: Endpoint,
    pub(super) file: Option<SocketFile>,
}

pub(super) fn listen(endpoint: &Endpoint) -> Result<Bound, ServerError> {
    match endpoint {
        Endpoint::Unix(path) => listen_unix(path),
        Endpoint::Tcp { host, port } => listen_tcp(host, *port).map_err(|source| os(endpoint, source)),
    }
}

fn os(endpoint: &Endpoint, source: io::Error) -> ServerError {
    ServerError::Listen { endpoint: endpoint.to_string(), source }
}

fn listen_tcp(host: &str, port: u16) -> io::Result<Bound> {
    let listener = std::net::TcpListener::bind((host, port))?;
    let port = listener.local_addr()?.port();
    Ok(Bound { fd: listener.into(), endpoint: Endpoint::Tcp { host: host.to_owned(), port }, file: None })
}

fn listen_unix(path: &Path) -> Result<Bound, ServerError> {
    let endpoint = Endpoint::Unix(path.to_owned());
    let fail = |source: io::Error| os(&endpoint, source);
    let _alone = lock_folder(path);
    let fd = match bind_unix(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            remove_stale(path)?;
            bind_unix(path).map_err(fail)?
        }
        result => result.map_err(fail)?,
    };
    let file = SocketFile::note(path).map_err(fail)?;
    rustix::net::listen(&fd, BACKLOG).map_err(|error| fail(error.into()))?;
    Ok(Bound { fd, endpoint, file: Some(file) })
}

/// Keeps other servers in the same folder from starting or ending meanwhile: a server that has bound and does
/// not listen yet looks dead to them, as does one that is about to remove its file. None if the lock is not
/// free within a second: then another program has locked the folder for other reasons.
fn lock_folder(path: &Path) -> Option<fs::File> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = fs::File::open(parent.unwrap_or(Path::new("."))).ok()?;
    for _ in 0..100 {
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(folder),
            Err(Errno::WOULDBLOCK | Errno::INTR) => thread::sleep(Duration::from_millis(10)),
            // Some file systems have no such locks.
            Err(_) => return None,
        }
    }
    None
}

/// Linux gives the socket file the mode of the socket's own inode, so others can never connect in between,
/// and there is no process-wide umask to change.
fn bind_unix(path: &Path) -> io::Result<OwnedFd> {
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::fs::fchmod(&fd, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
    rustix::net::bind(&fd, &SocketAddrUnix::new(path)?)?;
    Ok(fd)
}

/// Removes a dead server's socket file. Connecting shows whether it is dead: only then it is refused.
fn remove_stale(path: &Path) -> Result<(), ServerError> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    if !is_socket {
        return Err(ServerError::NotASocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            let _ = fs::remove_file(path);
            Ok(())
        }
        _ => Err(ServerError::InUse(path.to_owned())),
    }
}

/// The socket file we made; removed at the end if it is still ours.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn note(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(path)? })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _alone = lock_folder(&self.path);
        if identity(&self.path).is_ok_and(|now| now == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn of_servers_that_start_at_once_after_a_dead_one_the_first_has_the_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        for _ in 0..50 {
            drop(bind_unix(&path).unwrap());
            let start = Barrier::new(4);
            let begin = || {
                start.wait();
                listen_unix(&path).ok()
            };
            let bound: Vec<_> = thread::scope(|scope| {
                let servers: Vec<_> = (0..4).map(|_| scope.spawn(begin)).collect();
                servers.into_iter().filter_map(|server| server.join().unwrap()).collect()
            });
            assert_eq!(bound.len(), 1);
            UnixStream::connect(&path).unwrap();
            drop(bound);
            assert!(!path.exists());
        }
    }
}
