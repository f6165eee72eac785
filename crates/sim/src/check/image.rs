//! The members' bytes at one moment, read as another program would: superblocks, current members, the bitmap;
//! and whether they tell the truth about the data.

use std::{collections::BTreeSet, ops::Range};

use fixedbitset::FixedBitSet;

use super::{
    Checker, Violation,
    layout::ROW_BYTES,
    listed::listed_rows,
    md_bitmap::MdBitmap,
    superblock::{ROLE_SPARE, Superblock, u32_at, u64_at},
};

const HEADER_A_AT: usize = 262_144;
/// A member whose data begins earlier has no header.
const DATA_BEHIND_HEADER: usize = 524_288;
const BLOCK: usize = 4096;
const BITS_PER_PAGE: usize = 32_448;

/// Where the two copies of a member's extension header lie.
pub fn header_copies(data_offset_bytes: u64) -> [Range<u64>; 2] {
    let block = BLOCK as u64;
    [HEADER_A_AT as u64, data_offset_bytes - block].map(|start| start..start + block)
}

/// Where the slots of a member's bitmap pages lie. None: it has no superblock or no header.
pub fn page_slots(member: &[u8]) -> Option<Vec<Range<u64>>> {
    let header = Header::newest(member, Superblock::read(member)?.data_offset)?;
    let slots = (0..2 * header.pages).map(|slot| (header.bitmap_offset + slot * BLOCK) as u64);
    Some(slots.map(|start| start..start + BLOCK as u64).collect())
}

/// Where the newer slot of each bitmap page lies if the member has an older one, too. None: it has no
/// superblock or no header.
pub fn newest_page_slots(member: &[u8]) -> Option<Vec<Range<u64>>> {
    let superblock = Superblock::read(member)?;
    let header = Header::newest(member, superblock.data_offset)?;
    let newest = |page: usize| {
        let [a, b] = [0, 1].map(|slot| header.bitmap_offset + (2 * page + slot) * BLOCK);
        let generation = |at: usize| {
            let block = member.get(at..at + BLOCK)?;
            is_page(block, &superblock.array, page).then(|| u64_at(block, 32))
        };
        let start = if generation(a)? > generation(b)? { a } else { b } as u64;
        Some(start..start + BLOCK as u64)
    };
    Some((0..header.pages).filter_map(newest).collect())
}

/// A stripe of level 1, which has no chunks.
const MIRROR_STRIPE: usize = 64 << 10;

/// A member's extension header, as far as it tells where the bitmap is.
struct Header {
    generation: u64,
    bitmap_offset: usize,
    region_bytes: usize,
    regions: usize,
    pages: usize,
    /// An operator's choices: policies and speeds.
    options: Vec<u8>,
    /// All bytes ever written to the member.
    written_bytes: u64,
    /// The low bits of the stripe determine its region, not the high ones.
    distributed: bool,
}

impl Header {
    fn newest(member: &[u8], data_offset: usize) -> Option<Self> {
        if data_offset < DATA_BEHIND_HEADER {
            return None;
        }
        let copies = [HEADER_A_AT, data_offset - BLOCK];
        copies.into_iter().filter_map(|at| Self::read(&member[at..at + BLOCK])).max_by_key(|h| h.generation)
    }

    fn read(block: &[u8]) -> Option<Self> {
        if &block[..8] != b"STRPWISE" || u32_at(block, 16) != crc_without(block, 16) {
            return None;
        }
        Some(Self {
            generation: u64_at(block, 64),
            bitmap_offset: u64_at(block, 80) as usize,
            region_bytes: u64_at(block, 88) as usize,
            regions: u64_at(block, 96) as usize,
            pages: u32_at(block, 104) as usize,
            options: [&block[200..204], &block[208..216]].concat(),
            written_bytes: u64_at(block, 224),
            distributed: block[110] == 1,
        })
    }
}

/// CRC-32C of a block with the CRC's own field zero.
fn crc_without(block: &[u8], at: usize) -> u32 {
    let mut copy: [u8; BLOCK] = block.try_into().expect("a block");
    copy[at..at + 4].fill(0);
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &copy) as u32
}

/// Whether a block is a page of an array's bitmap.
fn is_page(block: &[u8], array: &[u8; 16], page: usize) -> bool {
    &block[..4] == b"SWBM"
        && &block[8..24] == array
        && u32_at(block, 24) as usize == page
        && u32_at(block, 4) == crc_without(block, 4)
}

/// The newer of a page's two slots on one member: generation and bits.
fn newest_page<'a>(
    member: &'a [u8],
    header: &Header,
    array: &[u8; 16],
    page: usize,
) -> Option<(u64, &'a [u8])> {
    let slots = (0..2).filter_map(|slot| {
        let at = header.bitmap_offset + (2 * page + slot) * BLOCK;
        let block = member.get(at..at + BLOCK)?;
        is_page(block, array, page).then(|| (u64_at(block, 32), &block[40..]))
    });
    slots.max_by_key(|(generation, _)| *generation)
}

/// The members at one moment.
pub struct Image<'a> {
    members: &'a [&'a [u8]],
    superblocks: Vec<Option<Superblock>>,
    freshest: usize,
    /// For each member the blocks of 4 KiB that may hold other bytes than zeroes, if known.
    written: Option<Vec<&'a FixedBitSet>>,
}

impl<'a> Image<'a> {
    /// Reads the superblocks; a missing member is given as no bytes. None: no member has a valid superblock.
    pub fn of(members: &'a [&'a [u8]]) -> Option<Self> {
        let superblocks: Vec<_> = members.iter().map(|member| Superblock::read(member)).collect();
        let events =
            |index: usize| superblocks[index].as_ref().map(|sb| (sb.events, std::cmp::Reverse(index)));
        let freshest = (0..members.len()).filter(|i| superblocks[*i].is_some()).max_by_key(|i| events(*i))?;
        Some(Self { members, superblocks, freshest, written: None })
    }

    /// As it is, with each member's blocks of 4 KiB that may hold other bytes than zeroes: the checks look at
    /// no others.
    pub fn with_written(self, written: Vec<&'a FixedBitSet>) -> Self {
        Self { written: Some(written), ..self }
    }

    /// The rows in which the data of at least one of some members may differ from zero, in order.
    fn written_rows(&self, members: impl Iterator<Item = usize>) -> Box<dyn Iterator<Item = usize>> {
        let rows = self.freshest().layout.rows();
        let Some(written) = &self.written else { return Box::new(0..rows) };
        let mut found = FixedBitSet::with_capacity(rows);
        for member in members {
            let start = self.superblock(member).expect("it has a standing").data_offset / BLOCK;
            found.extend(
                written[member].ones().filter_map(|block| block.checked_sub(start)).filter(|row| *row < rows),
            );
        }
        Box::new(found.into_ones())
    }

    /// The rows in which the members in sync disagree.
    pub fn wrong_rows(&self) -> Vec<usize> {
        self.disagreeing_rows(&self.in_sync())
    }

    /// The rows in which members in these roles disagree. A member counts as absent in rows that its log
    /// lists in part.
    fn disagreeing_rows(&self, by_role: &[Option<usize>]) -> Vec<usize> {
        let data: Vec<_> = by_role.iter().map(|member| Some(self.data((*member)?))).collect();
        let rows = self.written_rows(by_role.iter().copied().flatten());
        let layout = &self.freshest().layout;
        let listed: Vec<_> = by_role
            .iter()
            .map(|member| member.map(|member| self.listed(member)).unwrap_or_default())
            .collect();
        let is_wrong = |row: &usize| {
            let of = |role: usize| data[role].filter(|_| !listed[role].contains(row));
            let in_row: Vec<_> = (0..data.len()).map(of).collect();
            !layout.row_agrees(&in_row, *row)
        };
        if listed.iter().all(BTreeSet::is_empty) {
            return layout.disagreeing_among(rows, &data);
        }
        rows.filter(is_wrong).collect()
    }

    /// The rows of a member's data that its bad-block log lists in part.
    pub fn listed(&self, member: usize) -> BTreeSet<usize> {
        let superblock = self.superblock(member).expect("it has a standing");
        listed_rows(self.members[member], superblock.data_offset)
    }

    /// A member's superblock.
    pub fn superblock(&self, member: usize) -> Option<&Superblock> {
        self.superblocks[member].as_ref()
    }

    /// The superblock that counts.
    pub fn freshest(&self) -> &Superblock {
        self.superblocks[self.freshest].as_ref().expect("the freshest has one")
    }

    /// The role that a member is current in, wholly or (second) up to so many bytes. A member whose event
    /// count is one behind is current: its superblock was about to be written.
    pub fn standing(&self, member: usize) -> Option<(usize, Option<(usize, bool)>)> {
        let (fresh, own) = (self.freshest(), self.superblock(member)?);
        let role = fresh.role_of(own.number)?;
        let current = own.array == fresh.array
            && own.events + 1 >= fresh.events
            && own.role_of(own.number) == Some(role);
        current.then_some((role, own.filled))
    }

    /// Whether a member belongs, be it in sync, being filled, or waiting: it is up to date with the others,
    /// and they do not call it faulty.
    pub fn belongs(&self, member: usize) -> bool {
        let fresh = self.freshest();
        self.superblock(member).is_some_and(|own| {
            own.array == fresh.array && own.events + 1 >= fresh.events && !fresh.calls_faulty(own.number)
        })
    }

    /// Whether a member waits to be used: it belongs, and it and the others say that it has no role.
    pub fn waits(&self, member: usize) -> bool {
        let fresh = self.freshest();
        self.belongs(member)
            && self.superblock(member).is_some_and(|own| {
                let is_spare =
                    |superblock: &Superblock| superblock.roles.get(own.number as usize) == Some(&ROLE_SPARE);
                is_spare(own) && (is_spare(fresh) || fresh.role_of(own.number).is_some())
            })
    }

    /// The members in sync, by role.
    pub fn in_sync(&self) -> Vec<Option<usize>> {
        let mut by_role = vec![None; self.freshest().layout.members];
        for member in 0..self.members.len() {
            if let Some((role, None)) = self.standing(member) {
                by_role[role] = Some(member);
            }
        }
        by_role
    }

    /// The members in sync, and those that are completely filled in a role that no other member holds: a
    /// crash fell between the last checkpoint and the superblocks that record the end.
    pub fn as_good_as_in_sync(&self) -> Vec<usize> {
        let all_bytes = self.freshest().layout.member_bytes;
        let in_sync = self.in_sync();
        let is_whole = |member: &usize| match self.standing(*member) {
            Some((role, Some((filled_bytes, _)))) => filled_bytes >= all_bytes && in_sync[role].is_none(),
            _ => false,
        };
        let whole = (0..self.members.len()).filter(is_whole);
        in_sync.iter().copied().flatten().chain(whole).collect()
    }

    fn data(&self, member: usize) -> &'a [u8] {
        let superblock = self.superblock(member).expect("it has a standing");
        &self.members[member][superblock.data_offset..][..superblock.layout.member_bytes]
    }

    fn header(&self, member: usize) -> Option<Header> {
        Header::newest(self.members[member], self.superblock(member)?.data_offset)
    }

    /// The marked regions, by row; None: the pages are unusable, and all regions may disagree.
    fn marked_rows(&self) -> Option<BTreeSet<usize>> {
        let fresh = self.freshest();
        let holders: Vec<_> = self
            .as_good_as_in_sync()
            .into_iter()
            .filter_map(|member| Some((member, self.header(member)?)))
            .collect();
        let (_, first) = holders.first()?;
        let pages = first.pages;
        let region_of = |row: usize| match first.distributed {
            true if fresh.layout.level == 1 => row * ROW_BYTES / MIRROR_STRIPE % first.regions,
            true => row * ROW_BYTES / fresh.layout.chunk_bytes % first.regions,
            false => row * ROW_BYTES / first.region_bytes,
        };
        let rows = fresh.layout.rows();
        let mut marked = BTreeSet::new();
        for page in 0..pages {
            let found: Vec<_> = holders
                .iter()
                .filter_map(|(member, header)| newest_page(self.members[*member], header, &fresh.array, page))
                .collect();
            let generation = found.iter().map(|(generation, _)| *generation).max()?;
            let is_marked = |region: usize| {
                found.iter().any(|(g, bits)| *g == generation && bits[region / 8] >> (region % 8) & 1 == 1)
            };
            let on_page = |row: &usize| region_of(*row) / BITS_PER_PAGE == page;
            let rows = (0..rows).filter(on_page);
            marked.extend(rows.filter(|row| is_marked(region_of(*row) % BITS_PER_PAGE)));
        }
        Some(marked)
    }

    /// The rows in which a resync may be due: none of a clean array, else the marked ones. None: nothing
    /// tells.
    pub fn rows_due(&self) -> Option<BTreeSet<usize>> {
        if self.freshest().clean { Some(BTreeSet::new()) } else { self.marked_rows() }
    }

    /// How many pages of the bitmap have a valid copy on a member.
    pub fn valid_pages(&self, member: usize) -> usize {
        let Some((superblock, header)) = self.superblock(member).zip(self.header(member)) else { return 0 };
        let is_valid =
            |page: &usize| newest_page(self.members[member], &header, &superblock.array, *page).is_some();
        (0..header.pages).filter(is_valid).count()
    }

    /// The number of bytes ever written to a member, by its header.
    pub fn written_bytes(&self, member: usize) -> Option<u64> {
        self.header(member).map(|header| header.written_bytes)
    }

    /// md's own bitmap on each member in sync that has one, with its superblock's events.
    fn md_bitmaps(&self) -> impl Iterator<Item = (usize, u64, Option<MdBitmap>)> {
        let with_bitmap = |member: usize| {
            let superblock = self.superblock(member)?;
            let bitmap = MdBitmap::read(self.members[member], superblock.md_bitmap?);
            Some((member, superblock.events, bitmap))
        };
        self.in_sync().into_iter().flatten().filter_map(with_bitmap)
    }

    /// Checks that md's own bitmaps exist and mislead no kernel: if the kernel would believe one, it says
    /// that all is in sync, and its superblock says so, too. After a clean stop the kernel must believe all
    /// of them.
    ///
    /// # Errors
    /// The first [`Violation`].
    pub fn check_md_bitmaps(&self, was_stopped: bool) -> Result<(), Violation> {
        for (member, events, bitmap) in self.md_bitmaps() {
            let missing =
                || Checker::Kernel.violation(format!("m{member} has no md bitmap where it should be"));
            let bitmap = bitmap.ok_or_else(missing)?;
            let is_clean = self.superblock(member).is_some_and(|superblock| superblock.clean);
            if was_stopped || bitmap.events >= events {
                bitmap.check(member, events, is_clean)?;
            }
        }
        Ok(())
    }

    /// Checks that no more roles lack a member in sync than members were lost. A completely filled member is
    /// as good: a crash fell between the end of the filling and the superblocks that record it.
    ///
    /// # Errors
    /// A [`Violation`].
    pub fn check_vacant(&self, losses: usize) -> Result<(), Violation> {
        let all_bytes = self.freshest().layout.member_bytes;
        let is_filled = |role: usize| {
            let mut standings = (0..self.members.len()).filter_map(|member| self.standing(member));
            standings.any(|(of, filled)| of == role && filled.is_some_and(|(bytes, _)| bytes == all_bytes))
        };
        let in_sync = self.in_sync();
        let vacant = (0..in_sync.len()).filter(|role| in_sync[*role].is_none() && !is_filled(*role)).count();
        if vacant <= losses {
            return Ok(());
        }
        let what = format!("{vacant} roles have no member in sync, and {losses} members may have been lost");
        Err(Checker::Metadata.violation(what))
    }

    /// Checks that the bitmap can be read: after an array was opened, each page has a valid copy.
    ///
    /// # Errors
    /// A [`Violation`].
    pub fn check_bitmap(&self) -> Result<(), Violation> {
        let nobody = self.in_sync().iter().all(Option::is_none);
        if nobody || self.freshest().layout.level == 0 || self.marked_rows().is_some() {
            return Ok(());
        }
        Err(Checker::Bitmap
            .violation("a page of the bitmap has no valid copy: all of its regions may disagree"))
    }

    /// Checks the members' metadata against their data.
    ///
    /// # Errors
    /// The first [`Violation`].
    pub fn check(&self) -> Result<(), Violation> {
        self.check_with(true)
    }

    /// As [`Image::check`]; without the bitmap if that must not be believed.
    ///
    /// # Errors
    /// The first [`Violation`].
    pub fn check_with(&self, believes_bitmap: bool) -> Result<(), Violation> {
        let fresh = self.freshest();
        let rows = self.wrong_rows();
        let Some(first) = rows.first() else { return Ok(()) };
        if fresh.clean {
            let what =
                format!("the superblocks (event {}) say clean, and row {first} disagrees", fresh.events);
            return Err(Checker::Kernel.violation(what));
        }
        let Some(marked) = self.marked_rows().filter(|_| believes_bitmap) else { return Ok(()) };
        match rows.iter().find(|row| !marked.contains(row)) {
            None => Ok(()),
            Some(row) => {
                let what =
                    format!("row {row} disagrees, and its region is not marked; marked are {marked:?}");
                Err(Checker::Bitmap.violation(what))
            }
        }
    }

    /// Checks that everything agrees and nothing is missing.
    ///
    /// # Errors
    /// The first [`Violation`].
    pub fn check_redundancy(&self) -> Result<(), Violation> {
        match self.wrong_rows().as_slice() {
            [] => Ok(()),
            rows => Err(Checker::Redundancy.violation(format!("{} rows disagree: {rows:?}", rows.len()))),
        }
    }

    /// Checks that all members in sync keep the same options.
    ///
    /// # Errors
    /// A [`Violation`].
    pub fn check_options(&self) -> Result<(), Violation> {
        let serving = self.in_sync().into_iter().flatten();
        let options: Vec<_> =
            serving.filter_map(|member| Some((member, self.header(member)?.options))).collect();
        match options.iter().find(|(_, of)| *of != options[0].1) {
            None => Ok(()),
            Some(other) => {
                let what = format!("member {} keeps other options than member {}", other.0, options[0].0);
                Err(Checker::Metadata.violation(what))
            }
        }
    }

    /// Checks that a member being filled says that it replaces another one if its own table has such a
    /// member.
    fn check_replaces(&self, member: usize, role: usize, replaces: bool) -> Result<(), Violation> {
        let own = self.superblock(member).expect("it has a standing");
        let mut others = (0..own.roles.len() as u32).filter(|number| *number != own.number);
        let is_held = others.any(|number| own.role_of(number) == Some(role));
        if is_held == replaces {
            return Ok(());
        }
        let what = format!(
            "m{member} is being filled for role {role}: replaces: {replaces}, another member has it: {is_held}"
        );
        Err(Checker::Metadata.violation(what))
    }

    /// Checks that enough members hold each page of the bitmap once all is calm: one more than may be lost,
    /// and at least two.
    ///
    /// # Errors
    /// A [`Violation`].
    pub fn check_copies(&self) -> Result<(), Violation> {
        let fresh = self.freshest();
        let serving: Vec<usize> = self.in_sync().into_iter().flatten().collect();
        let wanted = serving.len().min((fresh.layout.tolerance() + 1).max(2));
        let headers: Vec<_> =
            serving.iter().filter_map(|member| Some((*member, self.header(*member)?))).collect();
        let pages = headers.first().map_or(0, |(_, header)| header.pages);
        for page in 0..pages {
            let generation = |(member, header): &(usize, Header)| {
                Some(newest_page(self.members[*member], header, &fresh.array, page)?.0)
            };
            let generations: Vec<u64> = headers.iter().filter_map(generation).collect();
            let newest = generations.iter().max().copied();
            let copies = generations.iter().filter(|generation| Some(**generation) == newest).count();
            if copies < wanted {
                let what = format!(
                    "page {page} of the bitmap has {copies} copies that are current, and {wanted} are due"
                );
                return Err(Checker::Bitmap.violation(what));
            }
        }
        Ok(())
    }

    /// Checks the filled part of members being filled: with the member in its role, rows in that part must
    /// agree where no resync is due.
    ///
    /// # Errors
    /// The first [`Violation`].
    pub fn check_filled(&self) -> Result<(), Violation> {
        let Some(marked) = self.marked_rows() else { return Ok(()) };
        for member in 0..self.members.len() {
            let Some((role, Some((filled_bytes, replaces)))) = self.standing(member) else { continue };
            self.check_replaces(member, role, replaces)?;
            let mut by_role = self.in_sync();
            by_role[role] = Some(member);
            let wrong = |row: &&usize| **row < filled_bytes / ROW_BYTES && !marked.contains(row);
            let rows = self.disagreeing_rows(&by_role);
            if let Some(row) = rows.iter().find(wrong) {
                let what = format!(
                    "m{member} says that it is filled to {filled_bytes} bytes, and row {row} disagrees"
                );
                return Err(Checker::Metadata.violation(what));
            }
        }
        Ok(())
    }
}
