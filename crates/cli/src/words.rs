//! Words of the command line, read as mdadm reads them if it knows them. An error says what is allowed.

use stripewise_wire::ClassChoice;

use crate::sizes::parse_size;

pub(crate) fn parse_level(text: &str) -> Result<i32, String> {
    let number = text.strip_prefix("raid").unwrap_or(text);
    let level = match number {
        "stripe" => Some(0),
        "mirror" => Some(1),
        _ => number.parse().ok().filter(|level| [0, 1, 4, 5, 6].contains(level)),
    };
    level.ok_or_else(|| format!("'{text}' is not a level: give 0, 1, 4, 5 or 6"))
}

pub(crate) fn parse_class(text: &str) -> Result<(String, ClassChoice), String> {
    let wrong = || format!("'{text}' is not DEVICE=hdd or DEVICE=ssd");
    let (device, class) = text.rsplit_once('=').ok_or_else(wrong)?;
    Ok((device.to_owned(), class.parse().map_err(|_| wrong())?))
}

pub(crate) fn parse_chunk(text: &str) -> Result<u32, String> {
    let bare = text.bytes().all(|b| b.is_ascii_digit());
    let bytes = parse_size(text)?.checked_mul(if bare { 1024 } else { 1 });
    bytes
        .and_then(|bytes| u32::try_from(bytes).ok())
        .ok_or_else(|| format!("'{text}' is too large for a chunk: give a power of two from 4K to 1M"))
}

pub(crate) fn parse_bitmap(text: &str) -> Result<(), String> {
    match text {
        "internal" => Ok(()),
        "none" => Err("an array with redundancy keeps its bitmap, which is internal: it spares the resync of everything after \
                       a crash; leave --bitmap out"
            .to_owned()),
        _ => Err(format!("'{text}' is no place for a bitmap: give internal, or leave it out")),
    }
}

pub(crate) fn parse_metadata(text: &str) -> Result<(), String> {
    match text {
        "1.2" | "1" | "default" => Ok(()),
        _ => Err(format!("arrays are made with metadata 1.2, not '{text}': leave --metadata out")),
    }
}

pub(crate) fn parse_sector(text: &str) -> Result<u32, String> {
    let bytes = parse_size(text)?;
    let known =
        u32::try_from(bytes).ok().filter(|bytes| (512..=4096).contains(bytes) && bytes.is_power_of_two());
    known.ok_or_else(|| format!("'{text}' is not a logical block size: give 512, 1K, 2K or 4K"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_chunks_are_read_as_mdadm_does() {
        assert_eq!(parse_level("raid5"), Ok(5));
        assert_eq!(parse_level("mirror"), Ok(1));
        assert!(parse_level("10").is_err());
        assert_eq!(parse_chunk("512"), Ok(512 << 10));
        assert_eq!(parse_chunk("64K"), Ok(65_536));
    }
}
