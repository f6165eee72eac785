//! Serves an array to NBD clients until standard input ends: `serve SOCKET MEMBER...`.

use std::{env, error::Error, io::Read, sync::Arc};

use stripewise::{AssembleOptions, Host, HostOptions, export::nbd};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let socket = arguments.next().ok_or("usage: serve SOCKET MEMBER...")?;
    let members: Vec<String> = arguments.collect();
    let host = Host::start(&HostOptions::default())?;
    let array = host.assemble(members, AssembleOptions::default())?;
    let export = nbd::Export::new("array", Arc::new(array.device()));
    let server = nbd::Server::start(
        host.runtime(),
        &nbd::Endpoint::Unix(socket.into()),
        vec![export],
        nbd::Limits::default(),
    )?;
    println!("serving {} bytes", array.geometry().capacity_bytes());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    host.block_on(async move {
        server.stop().await;
        array.stop().await
    })?;
    Ok(())
}
