//! Follows what happens to an array: a member fails, a spare takes its place, a check finds nothing: `watch
//! FOLDER`.

use std::{env, error::Error, fs::File, path::PathBuf};

use stripewise::{ArrayEvent, CreateOptions, Host, HostOptions, JobKind, SpeedLimits, geometry::Level, wait};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(env::args().nth(1).ok_or("usage: watch FOLDER")?);
    let members: Vec<_> = (0..4).map(|number| folder.join(format!("member{number}"))).collect();
    for path in &members {
        File::create_new(path)?.set_len(16 << 20)?;
    }
    let host = Host::start(&HostOptions::default())?;
    let array = host.create(&members[..3], CreateOptions::named("host:watched", Level::Raid5))?;
    let mut events = array.events();
    array.set_speed_limits(SpeedLimits { min_bytes_per_s: u64::MAX, max_bytes_per_s: u64::MAX });
    wait(array.wait_for_jobs());
    let failed = members[1].canonicalize()?;
    wait(array.fail(&failed.to_string_lossy()))?;
    wait(array.add(host.open_member(&members[3])?))?;
    while let Some(event) = wait(events.next()) {
        println!("{event:?}");
        match event {
            ArrayEvent::JobEnded { kind: JobKind::Rebuild, .. } => array.start_scrub(false)?,
            ArrayEvent::JobEnded { kind: JobKind::Check, .. } => break,
            _ => {}
        }
    }
    Ok(wait(array.stop())?)
}
