//! A store of records that several threads append to, in a parity array of three files: `store FOLDER`. Run
//! again, it reads what is there and appends more.

use std::{env, error::Error, fs::File, path::PathBuf, thread};

use stripewise::{
    ArrayError, AssembleOptions, Blocking, CreateOptions, Host, HostOptions, WriteFlags, geometry::Level,
};

const RECORD: usize = 4096;
const THREADS: usize = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(env::args().nth(1).ok_or("usage: store FOLDER")?);
    let members: Vec<_> = (0..3).map(|number| folder.join(format!("member{number}"))).collect();
    let host = Host::start(&HostOptions::default())?;
    let array = if members[0].exists() {
        host.assemble(&members, AssembleOptions::default())?
    } else {
        for path in &members {
            File::create_new(path)?.set_len(16 << 20)?;
        }
        host.create(&members, CreateOptions::named("host:store", Level::Raid5))?
    };
    let store = Blocking::of(&array);
    let stored = count(&store)?;
    println!("{stored} records");
    // Each thread appends one, durably; the threads' requests spread over the host's workers.
    let append =
        |record: usize| store.write_at((record * RECORD) as u64, vec![1; RECORD], WriteFlags { fua: true });
    let appended: Result<Vec<()>, ArrayError> = thread::scope(|scope| {
        let threads: Vec<_> = (stored..stored + THREADS).map(|r| scope.spawn(move || append(r))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    });
    appended?;
    println!("{} records", count(&store)?);
    Ok(store.stop()?)
}

/// Records begin with a byte that is not zero, and lie one behind the other.
fn count(store: &Blocking) -> Result<usize, ArrayError> {
    let (mut count, mut record) = (0, vec![0; RECORD]);
    loop {
        store.read_at((count * RECORD) as u64, &mut record)?;
        if record[0] == 0 {
            return Ok(count);
        }
        count += 1;
    }
}
