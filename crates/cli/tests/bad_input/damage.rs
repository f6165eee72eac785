//! Metadata that went bad, and members that lost their end.

use std::os::unix::fs::FileExt;

use stripewise::internals::format::{
    extension::{ExtensionLayout, Header, HeaderCopy},
    md::{Features, SUPERBLOCK_SECTOR, Superblock},
    media::{BLOCK_LEN, SECTOR_BYTES},
};

use crate::common::{Client, MIB, Sandbox, noise};

const SUPERBLOCK_BYTES: u64 = SUPERBLOCK_SECTOR * SECTOR_BYTES;

struct Stopped {
    sandbox: Sandbox,
    members: Vec<String>,
    data: Vec<u8>,
}

fn stopped() -> Stopped {
    let sandbox = Sandbox::new();
    let members = sandbox.members(4, 24 * MIB);
    sandbox.ok("create a --level 5 --assume-clean", &members);
    let data = noise(13, 8 << 20);
    Client::connect(&sandbox.serve("a")).write(0, &data).unwrap();
    sandbox.done("stop a");
    Stopped { sandbox, members, data }
}

impl Stopped {
    fn scribble(&self, member: usize, offset_bytes: u64, bytes: &[u8]) {
        let file = std::fs::File::options().write(true).open(&self.members[member]).unwrap();
        file.write_all_at(bytes, offset_bytes).unwrap();
        file.sync_all().unwrap();
    }

    fn superblock(&self, member: usize) -> Superblock {
        let mut block = [0; BLOCK_LEN];
        let file = std::fs::File::open(&self.members[member]).unwrap();
        file.read_exact_at(&mut block, SUPERBLOCK_BYTES).unwrap();
        Superblock::decode(&block, SUPERBLOCK_SECTOR).unwrap()
    }

    /// Changes a superblock. Its checksum is right afterwards.
    fn change(&self, member: usize, change: impl Fn(&mut Superblock)) {
        let mut superblock = self.superblock(member);
        change(&mut superblock);
        self.scribble(member, SUPERBLOCK_BYTES, &superblock.encode());
    }

    fn header_offset_bytes(&self, member: usize, copy: HeaderCopy) -> u64 {
        ExtensionLayout::for_superblock(&self.superblock(member)).unwrap().header_offset_bytes(copy)
    }

    /// Changes both copies of the header of every member. Their checksums are right afterwards.
    fn change_headers(&self, change: impl Fn(&mut Header)) {
        for member in 0..self.members.len() {
            let file = std::fs::File::open(&self.members[member]).unwrap();
            for copy in [HeaderCopy::A, HeaderCopy::B] {
                let (at, mut block) = (self.header_offset_bytes(member, copy), [0; BLOCK_LEN]);
                file.read_exact_at(&mut block, at).unwrap();
                let mut header = Header::decode(&block).unwrap();
                change(&mut header);
                self.scribble(member, at, &header.encode());
            }
        }
    }

    fn assert_holds(&self) {
        let client = Client::connect(&self.sandbox.serve("a"));
        assert!(client.read(0, self.data.len()).unwrap() == self.data);
        drop(client);
        self.sandbox.done("serve a --stop");
    }
}

#[test]
fn members_that_are_all_being_filled_are_each_told() {
    let array = stopped();
    for member in 0..4 {
        array.change(member, |superblock| {
            superblock.features = superblock.features.with(Features::RECOVERY_OFFSET)
        });
    }
    let reasons: Vec<_> =
        array.members.iter().map(|member| format!("{member}: it was being filled")).collect();
    let words: Vec<_> =
        ["0 of 4 members are usable"].into_iter().chain(reasons.iter().map(String::as_str)).collect();
    array.sandbox.fails(1, "assemble a", &array.members, &words);
    for member in 0..4 {
        array.change(member, |superblock| {
            superblock.features = superblock.features.without(Features::RECOVERY_OFFSET)
        });
    }
    array.sandbox.ok("assemble a", &array.members);
    array.assert_holds();
}

#[test]
fn a_logical_block_that_no_device_has_is_refused() {
    let array = stopped();
    for member in 0..4 {
        array.change(member, |superblock| superblock.logical_block_bytes = 3);
    }
    array.sandbox.fails(1, "assemble a", &array.members, &[&array.members[0], "logical block of 3 bytes"]);
}

#[test]
fn a_device_left_out_is_named_once() {
    let array = stopped();
    array.scribble(1, SUPERBLOCK_BYTES, &[0; 4096]);
    let reason = format!("; {}: no md superblock here", array.members[1]);
    array.sandbox.fails(1, "assemble a", &array.members, &["a member is absent", &reason]);
}

#[test]
fn a_damaged_superblock_costs_its_member_only() {
    for damage in [&[0u8; 256][..], &[0xff; 4096], &[0x5a; 1]] {
        let array = stopped();
        array.scribble(1, SUPERBLOCK_BYTES + 100, damage);
        let words = [&*array.members[1], "a member is absent", "--run"];
        array.sandbox.fails(1, "assemble a", &array.members, &words);
        array.sandbox.fails(1, "examine", &array.members[1..2], &[&array.members[1]]);
        array.sandbox.ok("assemble a --run", &array.members);
        array.assert_holds();
        array.sandbox.ok("add a --force --wait", &array.members[1..2]);
        array.assert_holds();
        array.sandbox.assert_consistent("a");
    }
}

#[test]
fn either_copy_of_the_extension_header_is_enough() {
    for copy in [HeaderCopy::A, HeaderCopy::B] {
        let array = stopped();
        for member in 0..array.members.len() {
            array.scribble(member, array.header_offset_bytes(member, copy) + 40, &[0xa5; 100]);
        }
        let shown = array.sandbox.ok("examine", &array.members);
        assert_eq!(shown.matches("one copy needs mending").count(), 4, "{shown}");
        array.sandbox.ok("assemble a", &array.members);
        assert_eq!(array.sandbox.status("a")["state"], "clean");
        let (log, which) = (array.sandbox.log("a"), if copy == HeaderCopy::A { "first" } else { "second" });
        for member in &array.members {
            let told =
                format!("the {which} copy of its extension header is damaged (extension header CRC is ");
            let line = log.lines().find(|line| line.contains(&told) && line.contains(member));
            assert!(line.is_some_and(|line| line.contains("WARN") && line.contains("written anew")), "{log}");
        }
        array.assert_holds();
        array.sandbox.done("stop a");
        let shown = array.sandbox.ok("examine", &array.members);
        assert_eq!(shown.matches("both copies good").count(), 4, "{shown}");
    }
}

#[test]
fn both_copies_gone_is_a_plain_md_member() {
    let array = stopped();
    for copy in [HeaderCopy::A, HeaderCopy::B] {
        array.scribble(2, array.header_offset_bytes(2, copy), &[0; BLOCK_LEN]);
    }
    array.sandbox.ok("assemble a", &array.members);
    array.assert_holds();
    array.sandbox.assert_consistent("a");
}

/// The bitmap is not trusted, and the log says why: nobody else has written the array.
#[test]
fn both_copies_damaged_after_a_crash_are_the_reason_for_a_full_resync() {
    let array = stopped();
    array.sandbox.ok("assemble a", &array.members);
    Client::connect(&array.sandbox.serve("a")).write(0, &array.data).unwrap();
    let pid = array.sandbox.pid("a");
    array.sandbox.signal(pid, rustix::process::Signal::KILL);
    for copy in [HeaderCopy::A, HeaderCopy::B] {
        array.scribble(2, array.header_offset_bytes(2, copy) + 40, &[0xa5; 100]);
    }
    array.sandbox.ok("assemble a", &array.members);
    array.sandbox.done("wait a");
    let (log, member) = (array.sandbox.log("a"), &array.members[2]);
    let why =
        format!("its bitmap cannot be trusted (the extension header is damaged on {member}): full resync");
    let line = log.lines().find(|line| line.contains("both copies of its extension header are damaged"));
    assert!(log.contains(&why) && !log.contains("another md implementation"), "{log}");
    assert!(
        line.is_some_and(|line| line.contains(member) && line.contains("it is written anew, without")),
        "{log}"
    );
    array.assert_holds();
    array.sandbox.assert_consistent("a");
    array.sandbox.done("stop a");
    assert_eq!(array.sandbox.ok("examine", &array.members).matches("both copies good").count(), 4);
    let told = || array.sandbox.log("a").matches("damaged").count();
    let before = told();
    array.sandbox.ok("assemble a", &array.members);
    assert_eq!(told(), before, "they were written anew");
}

/// A page that no member has is resynced; one that the others have is theirs.
#[test]
fn damaged_pages_of_the_bitmap_are_told() {
    let array = stopped();
    let file = std::fs::File::open(&array.members[1]).unwrap();
    let mut block = [0; BLOCK_LEN];
    file.read_exact_at(&mut block, array.header_offset_bytes(1, HeaderCopy::A)).unwrap();
    let at = Header::decode(&block).unwrap().bitmap.offset_bytes;
    for slot in [0, BLOCK_LEN as u64] {
        array.scribble(1, at + slot + 100, &[0xa5; 100]);
    }
    array.sandbox.ok("assemble a", &array.members);
    let log = array.sandbox.log("a");
    let line = log.lines().find(|line| line.contains("pages of its write-intent bitmap are damaged"));
    assert!(line.is_some_and(|line| line.contains(&array.members[1]) && line.contains("pages=1")), "{log}");
    array.sandbox.done("stop a");
    let told = || array.sandbox.log("a").matches("damaged").count();
    let before = told();
    array.sandbox.ok("assemble a", &array.members);
    assert_eq!(told(), before, "they were written anew");
    array.assert_holds();
}

/// As a later version would leave it.
#[test]
fn a_policy_that_is_not_known_is_told_and_kept() {
    let array = stopped();
    array.change_headers(|header| header.options.selection_policy = 77);
    let words = ["policy number 77", "classic is used in its place", "`stripewise policy a POLICY`"];
    let told = |said: &str| words.iter().all(|word| said.contains(word));
    let said = array.sandbox.run("assemble a", &array.members);
    assert!(said.code == Some(0) && told(&said.err), "{said:?}");
    for line in ["status", "detail a"] {
        assert!(told(&array.sandbox.done(line)), "{line}");
    }
    assert!(told(&array.sandbox.run("policy a", &[""; 0]).err));
    array.assert_holds();
    array.sandbox.done("stop a");
    let said = array.sandbox.run("assemble a", &array.members);
    assert!(told(&said.err), "the number was kept: {said:?}");
    array.sandbox.done("policy a modthresh");
    assert!(!told(&array.sandbox.done("status")));
    array.sandbox.done("stop a");
    assert_eq!(array.sandbox.run("assemble a", &array.members).err, "");
    assert_eq!(array.sandbox.json("policy a")["policy"], "modthresh");
}

/// The array opens without a cache: what is not known is not guessed.
#[test]
fn a_cache_that_makes_no_sense_is_told() {
    let array = stopped();
    for (change, words) in [
        (
            (|header| header.options.cache_policy = 77) as fn(&mut Header),
            "cache policy 77, which makes no sense here",
        ),
        (|header| header.options.cache.what = 99, "cache `what` 99"),
        (|header| header.options.cache.high_percent = 3, "cache low mark 85"),
    ] {
        array.change_headers(change);
        array.sandbox.ok("assemble a", &array.members);
        let status = array.sandbox.done("status");
        assert!(status.contains(words) && status.contains("it has no cache"), "{status}");
        array.assert_holds();
        array.sandbox.done("cache a stripe --what gain --low 85 --high 95 --size 8M");
        assert!(!array.sandbox.done("status").contains("sense"));
        array.sandbox.done("cache a none");
        array.sandbox.done("stop a");
    }
    array.change_headers(|header| {
        (header.options.cache_policy, header.options.cache.size_bytes) = (2, 1 << 60)
    });
    array.sandbox.ok("assemble a", &array.members);
    let status = array.sandbox.done("status");
    assert!(
        status.contains("a cache of 1024 PiB: give a size from") && status.contains("cache: stripe"),
        "{status}"
    );
    array.assert_holds();
}

#[test]
fn a_truncated_member_is_left_out() {
    let array = stopped();
    let file = std::fs::File::options().write(true).open(&array.members[3]).unwrap();
    file.set_len(12 * MIB).unwrap();
    let words = [&*array.members[3], "truncated", "--run"];
    array.sandbox.fails(1, "assemble a", &array.members, &words);
    array.sandbox.ok("assemble a --run", &array.members);
    array.assert_holds();
    array.sandbox.done("stop a");
    file.set_len(0).unwrap();
    array.sandbox.ok("assemble a", &array.members);
    array.assert_holds();
}

#[test]
fn superblocks_that_disagree_on_the_shape() {
    let array = stopped();
    let mut block = [0; BLOCK_LEN];
    let file = std::fs::File::open(&array.members[0]).unwrap();
    file.read_exact_at(&mut block, SUPERBLOCK_BYTES).unwrap();
    let mut superblock = Superblock::decode(&block, SUPERBLOCK_SECTOR).unwrap();
    superblock.chunk_sectors *= 2;
    array.scribble(0, SUPERBLOCK_BYTES, &superblock.encode());
    // The majority agrees on its shape: the one that is at odds is named, and left out.
    let words = [&*array.members[0], "disagrees on the array's chunk", "of role 0", "--run"];
    array.sandbox.fails(1, "assemble a", &array.members, &words);
    array.sandbox.ok("assemble a --run", &array.members);
    assert!(array.sandbox.status("a")["left_out"][0].as_str().unwrap().contains(&*array.members[0]));
    array.assert_holds();
}
