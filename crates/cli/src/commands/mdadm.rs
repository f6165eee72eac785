//! Running beside mdadm, which takes the members that it finds at boot unless it is told not to.

use std::path::PathBuf;

/// Folders of administrators' programs that may not be in the path.
const MORE_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// How to keep mdadm from an array. None if mdadm is not installed.
pub(super) fn hint(uuid: &str) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(MORE_FOLDERS.map(PathBuf::from));
    let is_there = folders.into_iter().any(|folder| folder.join("mdadm").is_file());
    is_there.then(|| {
        format!(
            "mdadm takes such members at boot. This line in its mdadm.conf (/etc/mdadm/ or /etc/) keeps it from them, in the \
             initramfs too once that is made anew: {}",
            line(uuid)
        )
    })
}

/// The line of mdadm.conf that makes mdadm leave an array alone.
fn line(uuid: &str) -> String {
    let digits: Vec<char> = uuid.chars().filter(|digit| *digit != '-').collect();
    let words: Vec<String> = digits.chunks(8).map(|word| word.iter().collect()).collect();
    format!("ARRAY <ignore> UUID={}", words.join(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_written_as_mdadm_writes_it() {
        let line = line("01234567-89ab-cdef-0123-456789abcdef");
        assert_eq!(line, "ARRAY <ignore> UUID=01234567:89abcdef:01234567:89abcdef");
    }
}
