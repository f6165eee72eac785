//! File systems with a past: files of all sizes, older nodes, sometimes records in the journal.

use stripewise_device::{EnvHandle, IoBuf};
use stripewise_format::rafs::inode::FileType;

use super::*;
use crate::{
    fs::{Fs, MountOptions, NewInode, ROOT, SetAttribute},
    shape::{BLOCK_BYTES, Geometry, Order},
    store::MakeOptions,
};

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    pub(super) inode: u64,
    /// The folders on the way, by number.
    pub(super) way: Vec<u64>,
    /// None: a folder.
    pub(super) content: Option<(Vec<u8>, Vec<u8>)>,
}

pub(super) type Tree = BTreeMap<Vec<Vec<u8>>, File>;

/// A file system that was not unmounted, or was.
pub(super) struct Image {
    pub(super) volume: TestVolume,
    pub(super) tree: Tree,
    /// What was changed since the last checkpoint.
    pub(super) since: BTreeSet<Vec<Vec<u8>>>,
    /// The volume's bytes at earlier checkpoints.
    pub(super) past: Vec<Vec<u8>>,
    pub(super) order: Order,
}

struct Maker {
    env: Arc<TestEnv>,
    fs: Fs,
    rng: fastrand::Rng,
    tree: Tree,
    since: BTreeSet<Vec<Vec<u8>>>,
    stripe_bytes: usize,
}

pub(super) fn mount(env: &Arc<TestEnv>, volume: &Arc<TestVolume>) -> Fs {
    try_mount(env, volume).unwrap()
}

pub(super) fn try_mount(env: &Arc<TestEnv>, volume: &Arc<TestVolume>) -> Result<Fs, MountError> {
    let buffer_blocks = 4 * u64::from(volume.geometry.stripe_blocks());
    let options = MountOptions { buffer_blocks, cached_nodes: 64, ..MountOptions::default() };
    let (as_env, volume): (EnvHandle, Arc<dyn Volume>) = (env.clone(), as_volume(volume));
    env.run(async move { Fs::mount(as_env, volume, options).await })
}

fn new_inode(file_type: FileType) -> NewInode {
    NewInode { file_type, permissions: 0o640, uid: 1, gid: 2, device: 0 }
}

impl Image {
    pub(super) fn make(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x5eed);
        let (columns, rows, order) = if rng.bool() { (4, 4, Order::Rows) } else { (2, 8, Order::Columns) };
        let geometry = Geometry::new(columns, rows, 160).unwrap();
        let volume = Arc::new(TestVolume::new(geometry));
        let env = TestEnv::new(seed);
        let options = MakeOptions {
            uuid: uuid::Uuid::from_u128(9),
            label: "test".to_owned(),
            created_us: 1,
            order,
            journal_stripes: Some(u64::from(48 / rows).max(2)),
            hash_seed: 7,
        };
        let made = as_volume(&volume);
        env.run(async move { Fs::make(&made, &options, (1, 2)).await }).unwrap();
        let fs = mount(&env, &volume);
        let stripe_bytes = (columns * rows) as usize * BLOCK_BYTES;
        let mut maker = Maker { env, fs, rng, tree: Tree::new(), since: BTreeSet::new(), stripe_bytes };
        let mut past = Vec::new();
        for _ in 0..3 + maker.rng.u32(0..3) {
            maker.work();
            maker.run(|fs| Box::pin(fs.checkpoint())).unwrap();
            maker.since.clear();
            past.push(volume.bytes_now());
        }
        if maker.rng.bool() {
            maker.run(|fs| Box::pin(fs.unmount())).unwrap();
        } else {
            // It ends without an unmount: what was synced is in the journal.
            for _ in 0..maker.rng.u32(0..3) {
                maker.work();
                maker.sync_all();
            }
            maker.act();
            maker.sync_all();
        }
        let Maker { tree, since, .. } = maker;
        Self { volume: volume.copy(), tree, since, past, order }
    }
}

impl Maker {
    fn run<T: Send + 'static>(
        &self,
        op: impl for<'a> FnOnce(&'a Fs) -> std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>> + Send + 'static,
    ) -> T {
        let fs = self.fs.clone();
        self.env.run(async move { op(&fs).await })
    }

    fn work(&mut self) {
        for _ in 0..self.rng.u32(10..60) {
            self.act();
        }
    }

    fn sync_all(&mut self) {
        let files: Vec<u64> = self.tree.values().map(|file| file.inode).collect();
        for inode in files {
            self.run(move |fs| Box::pin(fs.fsync(inode))).unwrap();
        }
    }

    fn paths(&self, is_folder: bool) -> Vec<Vec<Vec<u8>>> {
        let all = self.tree.iter().filter(|(_, file)| file.content.is_none() == is_folder);
        all.map(|(path, _)| path.clone()).collect()
    }

    fn act(&mut self) {
        match self.rng.u32(0..10) {
            0 => self.create(FileType::Folder),
            1 => self.create(FileType::Link),
            2 => self.unlink(),
            3 => self.link(),
            4 | 5 => self.write(),
            _ => self.create(FileType::File),
        }
    }

    fn create(&mut self, file_type: FileType) {
        let mut folders = self.paths(true);
        folders.push(Vec::new());
        let folder = folders[self.rng.usize(..folders.len())].clone();
        let mut way = self.tree.get(&folder).map_or(Vec::new(), |file| file.way.clone());
        let parent = self.tree.get(&folder).map_or(ROOT, |file| file.inode);
        way.push(parent);
        let name = format!(
            "{}{}",
            ["n", "a long name of some kind ", "x.y."][self.rng.usize(..3)],
            self.rng.u32(0..200)
        );
        let mut path = folder;
        path.push(name.clone().into_bytes());
        if self.tree.contains_key(&path) {
            return;
        }
        let target = vec![b't'; self.rng.usize(1..300)];
        let of_link = target.clone();
        let made = self.run(move |fs| {
            Box::pin(async move {
                let name = name.as_bytes();
                match file_type {
                    FileType::Link => fs.symlink(parent, name, &of_link, new_inode(FileType::Link)).await,
                    other => fs.create(parent, name, new_inode(other)).await,
                }
            })
        });
        let Ok(made) = made else { return };
        let content = match file_type {
            FileType::Folder => None,
            FileType::Link => Some((target, Vec::new())),
            _ => Some((Vec::new(), Vec::new())),
        };
        self.since.insert(path.clone());
        self.tree.insert(path.clone(), File { inode: made.inode, way, content });
        if file_type == FileType::File {
            self.write_to(&path);
        }
    }

    fn write(&mut self) {
        let files = self.paths(false);
        if let Some(path) = files.get(self.rng.usize(..files.len().max(1))) {
            self.write_to(&path.clone());
        }
    }

    fn write_to(&mut self, path: &[Vec<u8>]) {
        let file = self.tree[path].clone();
        let Some((mut bytes, mut attribute)) = file.content else { return };
        let inode = file.inode;
        if self.run(move |fs| Box::pin(fs.attr(inode))).unwrap().file_type != FileType::File {
            return;
        }
        let most = [200, 2000, 9000, 3 * BLOCK_BYTES, 2 * self.stripe_bytes][self.rng.usize(..5)];
        let len = self.rng.usize(1..=most);
        let at = if self.rng.bool() { 0 } else { self.rng.usize(..=bytes.len()) };
        let data: Vec<u8> = std::iter::repeat_with(|| self.rng.u8(..)).take(len).collect();
        let buf = IoBuf::copy_of(&data).freeze();
        if self.run(move |fs| Box::pin(fs.write(inode, at as u64, buf))).is_err() {
            return;
        }
        if bytes.len() < at + len {
            bytes.resize(at + len, 0);
        }
        bytes[at..at + len].copy_from_slice(&data);
        if self.rng.u32(0..4) == 0 {
            attribute = data[..data.len().min(100)].to_vec();
            let value = attribute.clone();
            self.run(move |fs| {
                Box::pin(
                    async move { fs.set_attribute(inode, b"user.test", &value, SetAttribute::Either).await },
                )
            })
            .unwrap();
        }
        let content = Some((bytes, attribute));
        for (path, file) in self.tree.iter_mut().filter(|(_, file)| file.inode == inode) {
            file.content = content.clone();
            self.since.insert(path.clone());
        }
    }

    fn unlink(&mut self) {
        let files = self.paths(false);
        let Some(path) = files.get(self.rng.usize(..files.len().max(1))).cloned() else { return };
        let folder = *self.tree[&path].way.last().unwrap();
        let name = path.last().unwrap().clone();
        self.run(move |fs| Box::pin(async move { fs.unlink(folder, &name).await })).unwrap();
        self.tree.remove(&path);
        self.since.insert(path);
    }

    fn link(&mut self) {
        let files = self.paths(false);
        let Some(path) = files.get(self.rng.usize(..files.len().max(1))).cloned() else { return };
        let file = self.tree[&path].clone();
        let name = format!("link{}", self.rng.u32(..)).into_bytes();
        let (folder, inode, new) = (*file.way.last().unwrap(), file.inode, name.clone());
        if self.run(move |fs| Box::pin(async move { fs.link(inode, folder, &new).await })).is_err() {
            return;
        }
        let mut linked = path[..path.len() - 1].to_vec();
        linked.push(name);
        self.since.insert(linked.clone());
        self.tree.insert(linked, file);
    }
}

/// All that is on a volume, by a mount that is ended.
pub(super) fn read(volume: &Arc<TestVolume>, seed: u64) -> Tree {
    let env = TestEnv::new(seed);
    let fs = mount(&env, volume);
    let of_tree = fs.clone();
    let tree = env.run(async move {
        let mut tree = Tree::new();
        let mut left = vec![(Vec::new(), vec![ROOT])];
        while let Some((path, way)) = left.pop() {
            for entry in of_tree.read_folder(way[way.len() - 1], 0, 10_000).await.unwrap() {
                let mut path: Vec<Vec<u8>> = path.clone();
                path.push(entry.name);
                let content = read_one(&of_tree, entry.inode, entry.file_type).await;
                if entry.file_type == FileType::Folder {
                    let mut way = way.clone();
                    way.push(entry.inode);
                    left.push((path.clone(), way));
                }
                tree.insert(path, File { inode: entry.inode, way: way.clone(), content });
            }
        }
        tree
    });
    env.run(async move { fs.unmount().await }).unwrap();
    tree
}

/// What can be read of it.
async fn read_one(fs: &Fs, inode: u64, file_type: FileType) -> Option<(Vec<u8>, Vec<u8>)> {
    match file_type {
        FileType::Folder => None,
        FileType::Link => Some((fs.read_link(inode).await.unwrap(), Vec::new())),
        _ => {
            let attribute = fs.attribute(inode, b"user.test").await.unwrap_or_default();
            let bytes = fs.read(inode, 0, 1 << 20).await;
            Some((bytes.map_or(b"unreadable".to_vec(), |bytes| bytes.to_vec()), attribute))
        }
    }
}
