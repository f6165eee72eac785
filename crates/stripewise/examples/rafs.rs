//! A file system in a file, mounted in this process, without the kernel: `rafs FILE`. It appends a line to `/log` and prints what is
//! there. Run again, it goes on with the same file system.

use std::{
    env,
    error::Error,
    fs::File,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use stripewise::{
    EnvHandle, Host, HostOptions, IoBuf,
    internals::format::rafs::inode::FileType,
    rafs::{
        fs::{Fs, FsError, MountOptions, NewInode, ROOT},
        shape::Order,
        store::MakeOptions,
        volume::{DeviceVolume, Volume},
    },
};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// What a stripe has: data columns, and blocks of 4 KiB in each. Over an `Array`, an `ArrayVolume` takes them from the array.
const DATA_COLUMNS: u32 = 4;
const ROWS: u32 = 16;

fn main() -> Outcome<()> {
    let path = env::args().nth(1).ok_or("usage: rafs FILE")?;
    let is_new = !std::fs::exists(&path)?;
    if is_new {
        File::create_new(&path)?.set_len(64 << 20)?;
    }
    let host = Host::start(&HostOptions::default())?;
    let volume: Arc<dyn Volume> =
        Arc::new(DeviceVolume::new(Arc::new(host.open_file(&path)?), DATA_COLUMNS, ROWS)?);
    let env = host.env();
    print!(
        "{}",
        host.block_on(async move {
            if is_new {
                Fs::make(&volume, &options(&env)?, (0, 0)).await?;
            }
            let fs = Fs::mount(env, volume, MountOptions::default()).await?;
            let log = append(&fs, "a line\n").await;
            // All that was written is durable then, and the journal is empty.
            fs.unmount().await?;
            log
        })?
    );
    Ok(())
}

fn options(env: &EnvHandle) -> Outcome<MakeOptions> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(MakeOptions {
        uuid: uuid::Uuid::new_v4(),
        label: "example".to_owned(),
        created_us: since.as_micros().try_into()?,
        order: Order::Rows,
        journal_stripes: None,
        hash_seed: env.random_u64(),
    })
}

/// Appends to `/log`, and returns all of it.
async fn append(fs: &Fs, line: &str) -> Outcome<String> {
    let found = match fs.lookup(ROOT, b"log").await {
        Err(FsError::NotFound) => {
            let file = NewInode { file_type: FileType::File, permissions: 0o644, uid: 0, gid: 0, device: 0 };
            fs.create(ROOT, b"log", file).await?
        }
        found => found?,
    };
    let (inode, size_bytes) = (found.inode, found.is.size_bytes);
    fs.write_all(inode, size_bytes, IoBuf::copy_of(line.as_bytes()).freeze()).await?;
    // The file, its name and the folders above are durable from here on.
    fs.fsync(inode).await?;
    let all = fs.read(inode, 0, usize::try_from(size_bytes)? + line.len()).await?;
    Ok(String::from_utf8(all.to_vec())?)
}
