//! The file system against a model, through power failures, kills, failing writes and full volumes.

mod beside;
mod lost;
mod model;
mod policy;
mod reading;
mod single;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use proptest::prelude::*;
use stripewise_device::IoBuf;
use stripewise_format::rafs::inode::FileType;
use uuid::Uuid;

use self::model::{Model, Names};
use super::*;
use crate::{
    check::{Report, check},
    shape::{BLOCK_BYTES, Geometry, Order},
    store::MakeOptions,
    test_env::TestEnv,
    test_volume::TestVolume,
};

/// What happens. Numbers choose among what there is.
#[derive(Debug, Clone)]
enum Action {
    Create {
        folder: u8,
        name: u8,
        file_type: FileType,
    },
    Write {
        file: u8,
        offset_bytes: u32,
        len: u32,
    },
    Truncate {
        file: u8,
        size_bytes: u32,
    },
    Punch {
        file: u8,
        offset_bytes: u32,
        len: u32,
    },
    Unlink {
        folder: u8,
        name: u8,
    },
    RemoveFolder {
        folder: u8,
        name: u8,
    },
    Link {
        file: u8,
        folder: u8,
        name: u8,
    },
    Rename {
        from: (u8, u8),
        to: (u8, u8),
        how: Rename,
    },
    SetAttribute {
        file: u8,
        name: u8,
        len: u16,
    },
    Read {
        file: u8,
    },
    Fsync {
        file: u8,
    },
    Sync,
    Checkpoint,
    Pass(u16),
    Remount,
    /// Power fails after so many writes and flushes from now on, and with what is done until the next crash.
    StopAfter(u8),
    Crash(u64),
    /// Writes and flushes fail after so many from now on, until the next of these.
    FailAfter(u8),
    GoWell,
}

fn action() -> impl Strategy<Value = Action> {
    let one = || any::<u8>();
    let types = prop::sample::select(vec![FileType::File, FileType::File, FileType::Folder, FileType::Link]);
    let size = || prop_oneof![3 => 0..5000_u32, 3 => 0..60_000_u32, 1 => (0..16_u32).prop_map(|blocks| blocks * 4096)];
    let how = prop::sample::select(vec![Rename::Replace, Rename::Refuse, Rename::Exchange]);
    prop_oneof![
        6 => (one(), one(), types).prop_map(|(folder, name, file_type)| Action::Create { folder, name, file_type }),
        12 => (one(), size(), size()).prop_map(|(file, offset_bytes, len)| Action::Write { file, offset_bytes, len }),
        3 => (one(), size()).prop_map(|(file, size_bytes)| Action::Truncate { file, size_bytes }),
        2 => (one(), size(), size()).prop_map(|(file, offset_bytes, len)| Action::Punch { file, offset_bytes, len }),
        3 => (one(), one()).prop_map(|(folder, name)| Action::Unlink { folder, name }),
        2 => (one(), one()).prop_map(|(folder, name)| Action::RemoveFolder { folder, name }),
        2 => (one(), one(), one()).prop_map(|(file, folder, name)| Action::Link { file, folder, name }),
        4 => (one(), one(), one(), one(), how)
            .prop_map(|(from, name, to, new, how)| Action::Rename { from: (from, name), to: (to, new), how }),
        2 => (one(), 0..3_u8, 0..300_u16).prop_map(|(file, name, len)| Action::SetAttribute { file, name, len }),
        3 => one().prop_map(|file| Action::Read { file }),
        6 => one().prop_map(|file| Action::Fsync { file }),
        2 => Just(Action::Sync),
        2 => Just(Action::Checkpoint),
        4 => (0..7000_u16).prop_map(Action::Pass),
        1 => Just(Action::Remount),
        3 => (0..12_u8).prop_map(Action::StopAfter),
        3 => any::<u64>().prop_map(Action::Crash),
        1 => (0..12_u8).prop_map(Action::FailAfter),
        2 => Just(Action::GoWell),
    ]
}

struct World {
    volume: Arc<TestVolume>,
    env: Arc<TestEnv>,
    fs: Fs,
    model: Model,
    /// Writes may fail.
    is_failing: bool,
    /// They may have failed since the last mount, the anchor's among them.
    may_be_broken: bool,
    seed: u64,
    writes: u64,
}

/// What a world's tasks hold goes with it.
impl Drop for World {
    fn drop(&mut self) {
        self.env.end();
    }
}

fn options(stripe_blocks: u32) -> MountOptions {
    let buffer_blocks = 4 * u64::from(stripe_blocks);
    MountOptions { buffer_blocks, cached_nodes: 16, ..MountOptions::default() }
}

fn new_inode(file_type: FileType) -> NewInode {
    NewInode { file_type, permissions: 0o640, uid: 1, gid: 2, device: 0 }
}

impl World {
    fn new((columns, rows): (u32, u32), stripes: u64, order: Order, polls: u32) -> Self {
        let geometry = Geometry::new(columns, rows, stripes).unwrap();
        let volume = Arc::new(TestVolume::slow(geometry, polls));
        let env = TestEnv::new(stripes);
        let made = MakeOptions {
            uuid: Uuid::from_u128(9),
            label: "test".to_owned(),
            created_us: 1,
            order,
            journal_stripes: Some(u64::from(48 / rows).max(2)),
            hash_seed: 7,
        };
        let as_volume: Arc<dyn Volume> = volume.clone();
        env.run(async move { Fs::make(&as_volume, &made, (1, 2)).await }).unwrap();
        let fs = mount(&env, &volume);
        Self {
            volume,
            env,
            fs,
            model: Model::new((columns * rows) as usize * BLOCK_BYTES),
            is_failing: false,
            may_be_broken: false,
            seed: 0,
            writes: 0,
        }
    }

    /// Runs an operation.
    fn run<T: Send + 'static>(
        &self,
        op: impl for<'a> FnOnce(&'a Fs) -> std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>> + Send + 'static,
    ) -> T {
        let fs = self.fs.clone();
        self.env.run(async move { op(&fs).await })
    }

    /// Whether what has ended now is durable.
    fn is_on(&self) -> bool {
        !self.volume.has_dropped()
    }

    fn act(&mut self, action: &Action) {
        match *action {
            Action::Create { folder, name, file_type } => self.create(folder, name, file_type),
            Action::Write { file, offset_bytes, len } => self.write(file, offset_bytes, len),
            Action::Truncate { file, size_bytes } => {
                let Some((id, inode)) = self.model.file(file) else { return };
                let set = SetAttr { size_bytes: Some(size_bytes.into()), ..SetAttr::default() };
                if self.accept(self.run(move |fs| Box::pin(fs.set_attr(inode, set)))).is_some() {
                    self.model.change(id, |bytes| bytes.resize(size_bytes as usize, 0));
                }
            }
            Action::Punch { file, offset_bytes, len } => {
                let Some((id, inode)) = self.model.file(file) else { return };
                let (start, end) = (u64::from(offset_bytes), u64::from(offset_bytes + len));
                if self.accept(self.run(move |fs| Box::pin(fs.punch(inode, start..end)))).is_some() {
                    self.model.change(id, |bytes| {
                        let within = |at: u64| (at as usize).min(bytes.len());
                        let range = within(start)..within(end);
                        bytes[range].fill(0);
                    });
                }
            }
            Action::Unlink { folder, name } => {
                let (folder_id, folder, name) = self.model.place(folder, name);
                let wanted = self.model.unlink(folder_id, &name);
                let got = self.run(move |fs| Box::pin(async move { fs.unlink(folder, &name).await }));
                self.compare(got, wanted);
            }
            Action::RemoveFolder { folder, name } => {
                let (folder_id, folder, name) = self.model.place(folder, name);
                let wanted = self.model.remove_folder(folder_id, &name);
                let got = self.run(move |fs| Box::pin(async move { fs.remove_folder(folder, &name).await }));
                self.compare(got, wanted);
            }
            Action::Link { file, folder, name } => {
                let Some((id, inode)) = self.model.file(file) else { return };
                let (folder_id, folder, name) = self.model.place(folder, name);
                let wanted = self.model.link(id, folder_id, &name);
                let got = self.run(move |fs| {
                    Box::pin(async move {
                        fs.link(inode, folder, &name).await?;
                        fs.forget(inode, 1).await;
                        Ok(())
                    })
                });
                self.compare(got, wanted);
            }
            Action::Rename { from, to, how } => {
                let (from_id, from, name) = self.model.place(from.0, from.1);
                let (to_id, to, new) = self.model.place(to.0, to.1);
                let wanted = self.model.rename((from_id, &name), (to_id, &new), how);
                let got = self
                    .run(move |fs| Box::pin(async move { fs.rename((from, &name), (to, &new), how).await }));
                self.compare(got, wanted);
            }
            Action::SetAttribute { file, name, len } => {
                let Some((id, inode)) = self.model.file(file) else { return };
                let (name, value) = (vec![b'a' + name; 20], vec![len as u8; len.into()]);
                let given = (name.clone(), value.clone());
                let set = self.run(move |fs| {
                    Box::pin(async move {
                        fs.set_attribute(inode, &given.0, &given.1, SetAttribute::Either).await
                    })
                });
                if self.accept(set).is_some() {
                    self.model.set_attribute(id, name, value);
                }
            }
            Action::Read { file } => {
                let Some((id, inode)) = self.model.file(file) else { return };
                let read = self.run(move |fs| Box::pin(fs.read(inode, 0, 1 << 20)));
                let Some(read) = self.accept(read) else { return };
                assert!(read[..] == self.model.bytes(id)[..], "a read gives other bytes");
            }
            Action::Fsync { file } => {
                let Some((id, inode)) = self.model.file(file) else { return };
                let synced = self.run(move |fs| Box::pin(fs.fsync(inode)));
                if self.has_ended(synced) && self.is_on() {
                    self.model.synced(Some(id));
                }
            }
            Action::Sync => {
                let synced = self.run(|fs| Box::pin(fs.sync()));
                if self.has_ended(synced) && self.is_on() {
                    self.model.synced(None);
                }
            }
            Action::Checkpoint => {
                let synced = self.run(|fs| Box::pin(fs.checkpoint()));
                if self.has_ended(synced) {
                    self.nothing_is_kept();
                    if self.is_on() {
                        self.model.synced(None);
                    }
                }
            }
            Action::Pass(ms) => self.env.pass(Duration::from_millis(ms.into())),
            Action::Remount => self.remount(),
            Action::StopAfter(count) => {
                if self.is_on() {
                    self.volume.stop_after(count.into());
                }
            }
            Action::Crash(seed) => self.crash(seed),
            Action::FailAfter(count) => {
                (self.is_failing, self.may_be_broken) = (true, true);
                self.volume.fail_after(count.into());
            }
            Action::GoWell => {
                self.is_failing = false;
                self.volume.fail_after(u64::MAX);
            }
        }
    }

    /// The result of an operation which may only fail if the volume does, or is full.
    fn accept<T: std::fmt::Debug>(&self, result: Result<T, FsError>) -> Option<T> {
        match result {
            Ok(result) => Some(result),
            Err(FsError::NoSpace) => None,
            Err(FsError::Io(_) | FsError::Store(_)) if self.is_failing => None,
            Err(FsError::Broken) if self.may_be_broken => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Whether what makes durable did so. What was accepted has room.
    fn has_ended(&self, result: Result<(), FsError>) -> bool {
        assert!(result != Err(FsError::NoSpace), "what was accepted finds no room");
        self.accept(result).is_some()
    }

    /// While nothing is changed or written out, no block is held, and no stripe is being filled.
    fn nothing_is_kept(&self) {
        let kept = self.run(|fs| {
            Box::pin(async move {
                let _turn = fs.shared.turn.take().await;
                let _discards = fs.shared.discarding.lock().await;
                let state = fs.shared.state.lock().await;
                let without_users =
                    state.live.iter().filter(|(_, live)| live.uses == 0).map(|(number, _)| *number);
                assert!(without_users.eq(state.unheld.iter().copied()));
                let rests = state.next_unused().is_none() && state.is_committed();
                rests.then(|| {
                    let store = &state.store;
                    (store.counts().held - store.kept_for_looks(), store.free_of_open())
                })
            })
        });
        assert!(kept.is_none_or(|kept| kept == (0, 0)), "{kept:?} blocks are held, and free in open stripes");
    }

    /// An operation and the model's must agree. The model's change is undone if there was no space.
    fn compare(&mut self, got: Result<(), FsError>, wanted: Result<Names, FsError>) {
        match (got, wanted) {
            (Ok(()), Ok(names)) => self.model.accept(names),
            (Err(FsError::NoSpace), _) => {}
            (Err(FsError::Io(_) | FsError::Store(_)), _) if self.is_failing => {}
            (Err(FsError::Broken), _) if self.may_be_broken => {}
            (Err(got), Err(wanted)) if got.errno() == wanted.errno() => {}
            (got, wanted) => panic!("{got:?}, and {wanted:?} by the model"),
        }
    }

    fn create(&mut self, folder: u8, name: u8, file_type: FileType) {
        let (folder_id, folder, name) = self.model.place(folder, name);
        let wanted = self.model.create(folder_id, &name, file_type);
        let target = vec![b'x'; 1 + name.len() * 100];
        let got = self.run(move |fs| {
            Box::pin(async move {
                let new = new_inode(file_type);
                let attr = match file_type {
                    FileType::Link => fs.symlink(folder, &name, &target, new).await?,
                    _ => fs.create(folder, &name, new).await?,
                };
                fs.forget(attr.inode, 1).await;
                Ok(attr.inode)
            })
        });
        if let (Ok(inode), Ok((id, _))) = (&got, &wanted) {
            self.model.has_inode(*id, *inode);
        }
        self.compare(got.map(|_| ()), wanted.map(|(_, names)| names));
    }

    fn write(&mut self, file: u8, offset_bytes: u32, len: u32) {
        let Some((id, inode)) = self.model.file(file) else { return };
        self.writes += 1;
        let data: Vec<u8> = (0..len).map(|at| (self.writes * 31 + u64::from(at / 512)) as u8 | 1).collect();
        let given = IoBuf::copy_of(&data).freeze();
        let written = self.run(move |fs| Box::pin(fs.write(inode, offset_bytes.into(), given)));
        let Some(count) = self.accept(written).filter(|count| *count > 0) else { return };
        let start = offset_bytes as usize;
        self.model.change(id, |bytes| {
            if bytes.len() < start + count {
                bytes.resize(start + count, 0);
            }
            bytes[start..start + count].copy_from_slice(&data[..count]);
        });
    }

    fn remount(&mut self) {
        let is_on = self.is_on();
        let unmounted = self.run(|fs| Box::pin(fs.unmount()));
        if !self.has_ended(unmounted) {
            return;
        }
        self.act(&Action::GoWell);
        if is_on && self.is_on() {
            self.model.synced(None);
            assert_eq!(self.check().orphans, 0);
        }
        if self.is_on() {
            self.fs = mount(&self.env, &self.volume);
            self.look();
        } else {
            self.crash(1);
        }
    }

    /// Power fails, or only the program ends.
    fn crash(&mut self, seed: u64) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let share = rng.f64();
        (self.is_failing, self.may_be_broken) = (false, false);
        self.volume.fail_after(u64::MAX);
        if seed.is_multiple_of(3) {
            self.volume.go_on();
        } else {
            self.volume.lose_power(|| rng.f64() < share);
        }
        self.seed += 1;
        self.env.end();
        self.env = TestEnv::new(self.seed);
        self.check();
        self.fs = mount(&self.env, &self.volume);
        self.look();
        if rng.bool() {
            self.act(&Action::Checkpoint);
        }
    }

    /// fsck finds nothing.
    fn check(&self) -> Report {
        let volume: Arc<dyn Volume> = self.volume.clone();
        let report = self.env.run(async move { check(&volume).await }).unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        report
    }

    /// Names and bytes are what they may be. From then on they are what they are.
    fn look(&mut self) {
        let mut found = Names::default();
        let mut contents = BTreeMap::new();
        self.look_into(ROOT, &mut found, &mut contents);
        self.model.look(&found, &contents);
    }

    fn look_into(&self, folder: u64, found: &mut Names, contents: &mut BTreeMap<u64, model::Content>) {
        let entries = self.run(move |fs| Box::pin(fs.read_folder(folder, 0, 10_000))).unwrap();
        for entry in entries {
            let (inode, name) = (entry.inode, entry.name.clone());
            let attr = self.run(move |fs| Box::pin(async move { fs.lookup(folder, &name).await })).unwrap();
            assert_eq!((attr.inode, attr.file_type), (inode, entry.file_type));
            self.run(move |fs| Box::pin(fs.forget(inode, 1)));
            found.insert((folder, entry.name), inode);
            match attr.file_type {
                FileType::Folder => self.look_into(inode, found, contents),
                FileType::File => {
                    let read = self.run(move |fs| Box::pin(fs.read(inode, 0, 1 << 20))).unwrap();
                    let attributes = self.run(move |fs| {
                        Box::pin(async move {
                            let mut all = BTreeMap::new();
                            for name in fs.attributes(inode).await.unwrap() {
                                let value = fs.attribute(inode, &name).await.unwrap();
                                all.insert(name, value);
                            }
                            all
                        })
                    });
                    contents.insert(inode, model::Content { bytes: read.to_vec(), attributes });
                }
                _ => {
                    let target = self.run(move |fs| Box::pin(fs.read_link(inode))).unwrap();
                    assert_eq!(target.len() as u64, attr.is.size_bytes);
                }
            }
        }
    }
}

fn mount(env: &Arc<TestEnv>, volume: &Arc<TestVolume>) -> Fs {
    mount_with(env, volume, options(volume.geometry().stripe_blocks()))
}

fn mount_with(env: &Arc<TestEnv>, volume: &Arc<TestVolume>, options: MountOptions) -> Fs {
    let (as_env, as_volume): (EnvHandle, Arc<dyn Volume>) = (env.clone(), volume.clone());
    env.run(async move { Fs::mount(as_env, as_volume, options).await }).unwrap()
}

/// Histories of each test: RAFS_HISTORIES, for long runs.
fn cases() -> u32 {
    std::env::var("RAFS_HISTORIES").ok().and_then(|count| count.parse().ok()).unwrap_or(60)
}

fn histories(shape: (u32, u32), stripes: u64, (order, polls): (Order, u32), actions: &[Action]) {
    let mut world = World::new(shape, stripes, order, polls);
    for action in actions {
        world.act(action);
    }
    world.act(&Action::GoWell);
    world.act(&Action::Crash(3));
    world.act(&Action::Remount);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 3000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_on_four_columns(actions in prop::collection::vec(action(), 1..120)) {
        histories((4, 4), 120, (Order::Rows, 0), &actions);
    }

    #[test]
    fn nothing_is_lost_on_two_columns_by_columns(actions in prop::collection::vec(action(), 1..120)) {
        histories((2, 8), 120, (Order::Columns, 3), &actions);
    }

    #[test]
    fn nothing_is_lost_where_space_is_short(actions in prop::collection::vec(action(), 1..200)) {
        histories((3, 4), 60, (Order::Rows, 5), &actions);
    }
}
