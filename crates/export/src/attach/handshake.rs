//! The client's half of NBD's fixed newstyle negotiation, as far as the kernel needs it: the kernel itself
//! speaks only the transmission phase, with simple replies.

use std::io::{self, Read, Write};

use super::AttachError;

const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

const FLAG_FIXED_NEWSTYLE: u16 = 1;
const FLAG_NO_ZEROES: u16 = 2;

const OPT_GO: u32 = 7;
const REP_ACK: u32 = 1;
const REP_INFO: u32 = 3;
const REP_ERROR_BIT: u32 = 1 << 31;
const INFO_EXPORT: u16 = 0;
const INFO_BLOCK_SIZE: u16 = 3;

/// The longest option reply we take: names and descriptions are at most 4 KiB each by the protocol.
const REPLY_BYTES_MAX: u32 = 16 << 10;

/// What a server says about its export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExportFacts {
    pub(super) size_bytes: u64,
    /// The transmission flags, as the kernel takes them.
    pub(super) flags: u16,
}

/// Negotiates up to the transmission phase, which the stream is in afterwards.
pub(super) fn negotiate(stream: &mut (impl Read + Write), export: &str) -> Result<ExportFacts, AttachError> {
    greet(stream).map_err(refused)?;
    ask_to_go(stream, export).map_err(refused)?;
    let mut facts = None;
    loop {
        let (kind, data) = read_reply(stream).map_err(refused)?;
        match kind {
            REP_ACK => return facts.ok_or_else(|| AttachError::Handshake("it told no size".into())),
            REP_INFO => facts = export_facts(&data).or(facts),
            kind if kind & REP_ERROR_BIT != 0 => {
                let said = String::from_utf8_lossy(&data).into_owned();
                return Err(AttachError::Handshake(format!("error {} {said}", kind & !REP_ERROR_BIT)));
            }
            // The protocol lets a client ignore information it does not know.
            _ => {}
        }
    }
}

fn refused(error: io::Error) -> AttachError {
    AttachError::Handshake(error.to_string())
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn greet(stream: &mut (impl Read + Write)) -> io::Result<()> {
    if read_u64(stream)? != INIT_MAGIC || read_u64(stream)? != OPTION_MAGIC {
        return Err(invalid("it is not an NBD server of the newstyle kind"));
    }
    let offered = u16::from_be_bytes(read_array(stream)?);
    if offered & FLAG_FIXED_NEWSTYLE == 0 {
        return Err(invalid("it does not speak fixed newstyle"));
    }
    let taken = offered & (FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES);
    stream.write_all(&u32::from(taken).to_be_bytes())
}

fn ask_to_go(stream: &mut impl Write, export: &str) -> io::Result<()> {
    let mut data = Vec::new();
    data.extend((export.len() as u32).to_be_bytes());
    data.extend(export.as_bytes());
    // A client that asks for the block sizes promises to keep to them; a server may insist on that.
    data.extend(1u16.to_be_bytes());
    data.extend(INFO_BLOCK_SIZE.to_be_bytes());
    let mut option = Vec::new();
    option.extend(OPTION_MAGIC.to_be_bytes());
    option.extend(OPT_GO.to_be_bytes());
    option.extend((data.len() as u32).to_be_bytes());
    option.extend(data);
    stream.write_all(&option)
}

fn read_reply(stream: &mut impl Read) -> io::Result<(u32, Vec<u8>)> {
    if read_u64(stream)? != REPLY_MAGIC || read_u32(stream)? != OPT_GO {
        return Err(invalid("its reply is none to our option"));
    }
    let kind = read_u32(stream)?;
    let len = read_u32(stream)?;
    if len > REPLY_BYTES_MAX {
        return Err(invalid("its reply is too long"));
    }
    let mut data = vec![0; len as usize];
    stream.read_exact(&mut data)?;
    Ok((kind, data))
}

fn export_facts(info: &[u8]) -> Option<ExportFacts> {
    let (kind, rest) = info.split_first_chunk()?;
    let (size, rest) = rest.split_first_chunk()?;
    let flags = rest.first_chunk()?;
    (u16::from_be_bytes(*kind) == INFO_EXPORT)
        .then(|| ExportFacts { size_bytes: u64::from_be_bytes(*size), flags: u16::from_be_bytes(*flags) })
}

fn read_array<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn read_u32(stream: &mut impl Read) -> io::Result<u32> {
    read_array(stream).map(u32::from_be_bytes)
}

fn read_u64(stream: &mut impl Read) -> io::Result<u64> {
    read_array(stream).map(u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server whose replies are all written beforehand.
    struct Scripted {
        says: io::Cursor<Vec<u8>>,
        heard: Vec<u8>,
    }

    impl Read for Scripted {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.says.read(into)
        }
    }

    impl Write for Scripted {
        fn write(&mut self, from: &[u8]) -> io::Result<usize> {
            self.heard.write(from)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn reply(kind: u32, data: &[u8]) -> Vec<u8> {
        let mut bytes = REPLY_MAGIC.to_be_bytes().to_vec();
        bytes.extend([OPT_GO, kind, data.len() as u32].map(u32::to_be_bytes).as_flattened());
        bytes.extend(data);
        bytes
    }

    fn server(replies: &[Vec<u8>]) -> Scripted {
        let mut says = [INIT_MAGIC, OPTION_MAGIC].map(u64::to_be_bytes).as_flattened().to_vec();
        says.extend(3u16.to_be_bytes());
        says.extend(replies.concat());
        Scripted { says: io::Cursor::new(says), heard: Vec::new() }
    }

    #[test]
    fn size_and_flags_come_from_the_export_info() {
        let export =
            [&INFO_EXPORT.to_be_bytes()[..], &4096u64.to_be_bytes(), &0x10du16.to_be_bytes()].concat();
        let other = [&INFO_BLOCK_SIZE.to_be_bytes()[..], &[0; 12]].concat();
        let mut server = server(&[reply(REP_INFO, &export), reply(REP_INFO, &other), reply(REP_ACK, &[])]);
        let facts = negotiate(&mut server, "a").unwrap();
        assert_eq!(facts, ExportFacts { size_bytes: 4096, flags: 0x10d });
        assert_eq!(server.heard[..4], 3u32.to_be_bytes());
        assert_eq!(server.heard.len(), 4 + 16 + 4 + 1 + 4);
    }

    #[test]
    fn refusals_and_rubbish_are_errors() {
        let told = |replies: &[Vec<u8>]| negotiate(&mut server(replies), "a").unwrap_err().to_string();
        assert!(told(&[reply(REP_ERROR_BIT | 6, b"no such export")]).contains("6 no such export"));
        assert!(told(&[reply(REP_ACK, &[])]).contains("no size"));
        assert!(told(&[vec![1; 20]]).contains("none to our option"));
        assert!(told(&[]).contains("refused"));
    }
}
