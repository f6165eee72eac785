//! The model against a real ext3: e2fsprogs makes it, this machine's kernel writes the same files, debugfs says where they lie.
//!
//! Today's kernels serve ext3 with the code of ext4: without delayed allocation and without extents, but with its allocator of
//! many blocks, which has no windows as Linux 2.6.11 has them. So where metadata lie must be equal to the block; what files
//! look like, only about.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use fastrand::Rng;
use stripewise_testkit::{Need, can_run, tool};
use tempfile::TempDir;

use super::{
    files::Ext3,
    layout::{BLOCK_BYTES, GROUP_BLOCKS, Layout},
};

const SIZE_BYTES: u64 = 384 << 20;
const JOURNAL_BYTES: u64 = 8 << 20;
const DIRECTORIES: u32 = 12;

/// A new ext3 with the parameters of 2005, in a file.
fn make(folder: &TempDir) -> PathBuf {
    let image = folder.path().join("image");
    fs::File::create(&image).unwrap().set_len(SIZE_BYTES).unwrap();
    let journal = format!("size={}", JOURNAL_BYTES >> 20);
    let features = "none,has_journal,sparse_super,filetype";
    let fixed = ["-q", "-F", "-b", "4096", "-I", "128", "-i", "8192", "-O", features, "-J", &journal];
    tool("mkfs.ext3", &[&fixed[..], &[image.to_str().unwrap()]].concat());
    image
}

#[test]
fn metadata_lie_where_mke2fs_puts_them() {
    if !can_run(&[Need::Tool("mkfs.ext3"), Need::Tool("dumpe2fs")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let said = tool("dumpe2fs", &[make(&folder).to_str().unwrap()]);
    let layout = Layout::new(SIZE_BYTES);
    // "  Block bitmap at 34 (+34)", "  Inode table at 36-547 (+36)".
    let of = |words: &str| -> Vec<u32> {
        let rests = said.lines().filter_map(|line| line.trim().strip_prefix(words));
        rests
            .map(|rest| rest.trim_matches([',', ' ']).split(['-', ' ', ',']).next().unwrap().parse().unwrap())
            .collect()
    };
    let groups = || 0..layout.groups();
    assert_eq!(of("Block bitmap at "), groups().map(|group| layout.block_bitmap(group)).collect::<Vec<_>>());
    assert_eq!(of("Inode bitmap at "), groups().map(|group| layout.inode_bitmap(group)).collect::<Vec<_>>());
    assert_eq!(of("Inode table at "), groups().map(|group| layout.inode_table(group)).collect::<Vec<_>>());
    assert_eq!(of("Backup superblock at "), [GROUP_BLOCKS], "of three groups");
    assert!(
        said.contains(&format!("Inode count:              {}", layout.groups() * layout.inodes_per_group))
    );
}

/// A file is written, or with no blocks deleted.
#[derive(Clone, Copy)]
struct Change {
    directory: u32,
    file: u32,
    blocks: u64,
}

impl Change {
    fn path(&self) -> String {
        format!("d{}/f{:011}", self.directory, self.file)
    }
}

/// Where a file lies.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    inode_group: u32,
    directory: u32,
    /// Runs of its data.
    data: Vec<(u32, u32)>,
    /// Its indirect blocks.
    indirect: usize,
}

/// What was done to the model, and what became of it.
struct Aged {
    changes: Vec<Change>,
    places: BTreeMap<String, Place>,
}

/// Fills a model with directories in these groups to 90 %, then so many times deletes a fifth and fills it again.
fn age_the_model(directories: &[u32], cycles: u32) -> Aged {
    let (mut of, _) = Ext3::new(SIZE_BYTES, JOURNAL_BYTES / BLOCK_BYTES, 1);
    let mut rng = Rng::with_seed(1);
    let directories: Vec<_> = directories.iter().map(|group| of.make_directory_in(*group)).collect();
    let (mut changes, mut files) = (Vec::new(), BTreeMap::new());
    for left in (0..=cycles).rev() {
        while of.free_blocks() > of.blocks() / 10 {
            let file = changes.len() as u32;
            let change = Change { directory: file % DIRECTORIES, file, blocks: rng.u64(1..32) };
            let made = of.create(directories[change.directory as usize], change.blocks);
            files.insert(change.path(), (change, made));
            changes.push(change);
        }
        if left > 0 {
            let gone: Vec<_> = files.keys().filter(|_| rng.u8(..5) == 0).cloned().collect();
            for path in gone {
                let (change, file) = files.remove(&path).unwrap();
                of.remove(&file);
                changes.push(Change { blocks: 0, ..change });
            }
        }
    }
    let places = files.into_iter().map(|(path, (change, file))| {
        (
            path,
            Place {
                inode_group: of.group_of(&file),
                directory: change.directory,
                indirect: file.indirect.len(),
                data: file.data,
            },
        )
    });
    Aged { changes, places: places.collect() }
}

/// A mounted image, until it is dropped.
struct Mounted(TempDir);

impl Mounted {
    fn new(image: &Path) -> Self {
        let at = tempfile::tempdir().unwrap();
        tool("mount", &["-t", "ext3", "-o", "loop", image.to_str().unwrap(), at.path().to_str().unwrap()]);
        Self(at)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        tool("umount", &[self.path().to_str().unwrap()]);
    }
}

/// Makes the directories of the real one. Returns the groups that the kernel chose, at random.
fn make_directories(image: &Path, folder: &TempDir) -> Vec<u32> {
    let names = || (0..DIRECTORIES).map(|directory| format!("d{directory}"));
    let mounted = Mounted::new(image);
    names().for_each(|name| fs::create_dir(mounted.path().join(name)).unwrap());
    drop(mounted);
    look(image, folder, names()).iter().map(|place| place.inode_group).collect()
}

/// Does to the real one what was done to the model.
fn age_the_real_one(image: &Path, changes: &[Change]) {
    let mounted = Mounted::new(image);
    let at = mounted.path();
    let mut deletes = false;
    for change in changes {
        let path = at.join(change.path());
        // Blocks that were freed can be taken again when the transaction has ended.
        if deletes && change.blocks > 0 {
            tool("sync", &["-f", at.to_str().unwrap()]);
        }
        deletes = change.blocks == 0;
        match change.blocks {
            0 => fs::remove_file(path).unwrap(),
            blocks => fs::write(path, vec![7; (blocks * BLOCK_BYTES) as usize]).unwrap(),
        }
    }
}

/// Asks debugfs where files and directories lie.
fn look(image: &Path, folder: &TempDir, paths: impl Iterator<Item = String>) -> Vec<Place> {
    let layout = Layout::new(SIZE_BYTES);
    let questions = folder.path().join("questions");
    fs::write(&questions, paths.map(|path| format!("stat /{path}\n")).collect::<String>()).unwrap();
    let said = tool("debugfs", &["-f", questions.to_str().unwrap(), image.to_str().unwrap()]);
    let of = |text: &str| {
        let inode: u32 = text.split_whitespace().next().unwrap().parse().unwrap();
        // "(0-11):2077-2088, (IND):2089, (12):2090"
        let (_, blocks) = text.split_once("BLOCKS:\n").unwrap_or_default();
        let parts = || blocks.split("TOTAL").next().unwrap_or_default().split(", ").map(str::trim);
        let run = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.parse().unwrap(), last.parse().unwrap());
            (first, last - first + 1)
        };
        let data = parts().filter(|part| !part.contains("IND")).filter_map(|part| part.rsplit_once(':'));
        Place {
            inode_group: (inode - 1) / layout.inodes_per_group,
            directory: 0,
            data: data.map(|(_, blocks)| run(blocks)).collect(),
            indirect: parts().filter(|part| part.contains("IND")).count(),
        }
    };
    said.split("Inode: ").skip(1).map(of).collect()
}

/// What files look like, as shares.
#[derive(Debug)]
struct Looks {
    /// Of files of up to 8 blocks, those that lie in one run.
    contiguous: f64,
    /// Runs of data a file.
    fragments: f64,
    /// Files with their inode in their directory's group.
    near_directory: f64,
    /// Files whose data begin in their inode's group.
    near_inode: f64,
    /// Blocks, indirect ones included, a file.
    blocks: f64,
}

fn looks(places: &[Place], directory_groups: &[u32]) -> Looks {
    let share = |of: &dyn Fn(&Place) -> f64| places.iter().map(of).sum::<f64>() / places.len() as f64;
    let is = |yes: bool| if yes { 1.0 } else { 0.0 };
    let is_short = |place: &Place| place.data.iter().map(|(_, count)| count).sum::<u32>() <= 8;
    Looks {
        contiguous: share(&|place| is(is_short(place) && place.data.len() == 1))
            / share(&|place| is(is_short(place))),
        fragments: share(&|place| place.data.len() as f64),
        near_directory: share(&|place| is(place.inode_group == directory_groups[place.directory as usize])),
        near_inode: share(&|place| is(place.data[0].0 / GROUP_BLOCKS == place.inode_group)),
        blocks: share(&|place| {
            (place.indirect as u32 + place.data.iter().map(|(_, count)| count).sum::<u32>()).into()
        }),
    }
}

/// The same history in the same directories on both: what files look like on the real one, and in the model.
fn on_both(cycles: u32) -> [Looks; 2] {
    let folder = tempfile::tempdir().unwrap();
    let image = make(&folder);
    let groups = make_directories(&image, &folder);
    let own = age_the_model(&groups, cycles);
    age_the_real_one(&image, &own.changes);
    let found = look(&image, &folder, own.places.keys().cloned());
    assert_eq!(found.len(), own.places.len());
    let own_places: Vec<_> = own.places.into_values().collect();
    let found =
        found.into_iter().zip(&own_places).map(|(found, own)| Place { directory: own.directory, ..found });
    let both = [looks(&found.collect::<Vec<_>>(), &groups), looks(&own_places, &groups)];
    println!("after {cycles} cycles, real and model: {both:?}");
    both
}

#[test]
fn files_look_about_as_on_a_real_ext3() {
    let tools = ["mkfs.ext3", "debugfs", "mount", "umount", "sync"].map(Need::Tool);
    let others = [Need::Root, Need::Device("/dev/loop-control"), Need::FileSystem("ext3")];
    if !can_run(&[&tools[..], &others].concat()) {
        return;
    }
    let both = [0, 3].map(on_both);
    for [real, model] in &both {
        let near = |name: &str, of: fn(&Looks) -> f64, tolerance: f64| {
            assert!((of(real) - of(model)).abs() < tolerance, "{name}: {real:?} and {model:?}");
        };
        near("no file has another size", |looks| looks.blocks, 1e-9);
        // Found: 0.93 and 1.00 when new, 0.85 and 0.92 when aged. The kernel's allocator takes short files from pools of its own,
        // whose ends split some.
        near("short files in one run", |looks| looks.contiguous, 0.12);
        // Both put inodes beside their directories while their groups have room. Found: 0.93 to 0.97 in the model. The kernel
        // has two answers for the same history: 0.98 to 1.00 in seven runs of eight, 0.79 to 0.91 in the eighth.
        near("inodes beside their directories", |looks| looks.near_directory, 0.25);
        near("data beside their inodes", |looks| looks.near_inode, 0.15);
        // The kernel moves a file to another place when it grows beyond 16 blocks, which half of these do; ours does not.
        let ratio = real.fragments / model.fragments;
        assert!((1.0..1.7).contains(&ratio), "{real:?} and {model:?}");
    }
    // What age does to files must not depend on that.
    let [real, model] = [0, 1].map(|side| both[1][side].fragments / both[0][side].fragments);
    assert!((real / model - 1.0).abs() < 0.15, "age breaks files {real} and {model} times as often");
}
