//! Drives of the papers, and a current one.
//!
//! Published numbers come from the makers' data sheets and manuals. Where none is published, the value says
//! from what it was derived, or that it is typical; none was chosen to make a figure come out.
//!
//! Looked up when this was written: the numbers of WD400BB, Ultrastar DC HC310, Savvio 10K.1 and Hitachi
//! 7K1000.C, the Exos X18's 270 MB/s, the WD6401AALS' capacity, buffer and queue depth. The other published
//! numbers of the three drives are cited from knowledge of their sheets and manuals, and want comparing with
//! them.
//!
//! Sectors per track follow from published sustained rates: a track and its skew pass in revolution + skew,
//! so sectors = rate * (revolution + skew) / 512.

use super::params::{HddParams, ReadAhead, SeekTimes};

impl HddParams {
    /// Western Digital Caviar Black WD6401AALS, 640 GB, 7200 rpm, 32 MB, SATA 3 Gb/s: the disks of
    /// raid4s-modthresh.
    ///
    /// Published (WD specification sheet): 1,250,263,728 sectors, 7200 rpm, 106 MB/s sustained to and from
    /// the disk, 8.9 ms average read seek, 32 MB buffer, NCQ; two platters (reviews), so four heads.
    pub fn wd_caviar_black_640() -> Self {
        Self {
            name: "WD6401AALS",
            sectors: 1_250_263_728,
            revolution_ns: 8_333_333,
            heads: 4,
            // Typical for drives of its time: 15 to 30 zones.
            zones: 24,
            // 106 MB/s * (8.333 + 1.2) ms / 512.
            outer_track_sectors: 1974,
            // Typical: the innermost track holds half of the outermost (reviews measured about 55 MB/s
            // there).
            inner_track_sectors: 987,
            // Average published. Full stroke: 21 ms, published for WD's 7200 rpm line with the same 8.9 ms
            // average (WD400BB). Single track: typical of measured drives; the sheet's 2.0 ms is a bound, at
            // which one track after another could not give the 106 MB/s without far more sectors.
            read_seek: SeekTimes {
                single_track_ns: 800_000,
                average_ns: 8_900_000,
                full_stroke_ns: 21_000_000,
            },
            // The same line's published 10.9 ms write seek is of 2001; later 7200 rpm drives have about 1 ms
            // between read and write (Hitachi 7K1000.C: 8.5 and 9.5 ms). Typical.
            write_seek: SeekTimes {
                single_track_ns: 1_000_000,
                average_ns: 9_900_000,
                full_stroke_ns: 22_000_000,
            },
            // Typical: settling dominates, as in a single-track seek (Ruemmler and Wilkes 1994).
            head_switch_ns: 800_000,
            // Derived: head switch and settling before a write, and a fifth of slack.
            track_skew_ns: 1_200_000,
            cylinder_skew_ns: 1_200_000,
            // 0.3 ms controller overhead is published for the line (WD400BB); how it divides is an
            // assumption.
            command_ns: 40_000,
            setup_ns: 200_000,
            status_ns: 60_000,
            // SATA 3 Gb/s with 8b10b coding.
            interface_bytes_per_s: 300_000_000,
            // NCQ has 32 tags and libata uses 31.
            queue_depth: 31,
            // Typical; not published.
            read_segments: 16,
            segment_sectors: 2048,
            // As shipped: drives' read look-ahead is on by default (ATA, SET FEATURES AAh).
            read_ahead: ReadAhead::Always,
            // As shipped. The share of the 32 MB that writes may take is not published; half.
            write_cache: true,
            write_cache_sectors: 32_768,
        }
    }

    /// Seagate Cheetah 15K.4 ST373454LC, 73.4 GB, 15,000 rpm, 8 MB, Ultra320 SCSI: the disks of msc-ct.
    ///
    /// Published (Cheetah 15K.4 SCSI manual 100220456 and data sheet): 143,374,744 sectors, 15,000 rpm, two
    /// discs and four heads, 58 to 96 MB/s sustained, 3.5 and 4.0 ms average seek, 8 MB buffer.
    pub fn seagate_cheetah_15k4_73() -> Self {
        Self {
            name: "ST373454LC",
            sectors: 143_374_744,
            revolution_ns: 4_000_000,
            heads: 4,
            // Typical.
            zones: 24,
            // 96 MB/s * (4.0 + 0.5) ms / 512, and 58 MB/s likewise.
            outer_track_sectors: 844,
            inner_track_sectors: 510,
            // Averages published (msc-ct has 4.1 ms for writes). Single track 0.2 and 0.4 ms and full stroke
            // about twice the average: as published for its siblings (Savvio 10K.1: 0.20 and 0.60 ms; 8.1 ms
            // against 4.0).
            read_seek: SeekTimes {
                single_track_ns: 200_000,
                average_ns: 3_500_000,
                full_stroke_ns: 7_400_000,
            },
            write_seek: SeekTimes {
                single_track_ns: 400_000,
                average_ns: 4_000_000,
                full_stroke_ns: 7_900_000,
            },
            // Typical: as a single-track seek.
            head_switch_ns: 200_000,
            // Derived: switch and settling before a write, and a quarter of slack.
            track_skew_ns: 500_000,
            cylinder_skew_ns: 500_000,
            // Seek tables with and without controller overhead differ by 0.2 ms (Savvio 10K.1 manual 4.2.1);
            // how it divides is an assumption.
            command_ns: 40_000,
            setup_ns: 120_000,
            status_ns: 40_000,
            // Ultra320, here for one drive alone: the bus that several share is not modelled.
            interface_bytes_per_s: 320_000_000,
            // SCSI tags; Linux's aic79xx driver gives a drive 32 by default.
            queue_depth: 32,
            // Typical; not published.
            read_segments: 16,
            segment_sectors: 1024,
            // msc-ct I-C: the disk of its Fig. 9(a), which is this one (IV-F), does not prefetch after
            // scattered reads.
            read_ahead: ReadAhead::AfterSequential,
            // msc-ct I-C: the disks of its Fig. 1 begin to write as soon as data arrives; write-back is set
            // against that.
            write_cache: false,
            // Not published, and only used where write-back is switched on; half of the 8 MB.
            write_cache_sectors: 8192,
        }
    }

    /// Seagate Exos X18 ST18000NM000J, 18 TB, 7200 rpm, 256 MB, SATA 6 Gb/s: a current drive.
    ///
    /// Published (Exos X18 manual): 35,156,656,128 sectors, 7200 rpm, 9 discs and 18 heads, 270 MB/s
    /// sustained at the outer edge, 256 MB buffer; 170 random reads a second at queue depth 16, which serves
    /// as a check only.
    pub fn seagate_exos_x18() -> Self {
        Self {
            name: "ST18000NM000J",
            sectors: 35_156_656_128,
            revolution_ns: 8_333_333,
            heads: 18,
            // Typical.
            zones: 32,
            // 270 MB/s * (8.333 + 0.5) ms / 512.
            outer_track_sectors: 4658,
            // Typical: a little under half.
            inner_track_sectors: 2190,
            // Not published for this drive. Average and single track: Western Digital Ultrastar DC HC310
            // manual 4.5.1, 7.4 and 8.2 ms, 0.23 and 0.32 ms. Full stroke: typical, twice the average.
            read_seek: SeekTimes {
                single_track_ns: 230_000,
                average_ns: 7_400_000,
                full_stroke_ns: 15_000_000,
            },
            write_seek: SeekTimes {
                single_track_ns: 320_000,
                average_ns: 8_200_000,
                full_stroke_ns: 16_000_000,
            },
            // Typical: as a single-track seek. Such drives lay many tracks on one surface before they change
            // heads; here each cylinder is filled in turn.
            head_switch_ns: 230_000,
            // Derived: settling before a write, and a third of slack.
            track_skew_ns: 500_000,
            cylinder_skew_ns: 500_000,
            // Typical: 0.1 ms in all, of which the parts are assumptions.
            command_ns: 15_000,
            setup_ns: 65_000,
            status_ns: 20_000,
            // SATA 6 Gb/s with 8b10b coding.
            interface_bytes_per_s: 600_000_000,
            // NCQ has 32 tags and libata uses 31.
            queue_depth: 31,
            // Typical; not published. Half of the buffer.
            read_segments: 32,
            segment_sectors: 8192,
            // As shipped: drives' read look-ahead is on by default (ATA, SET FEATURES AAh).
            read_ahead: ReadAhead::Always,
            // As shipped; the writes' share of the 256 MB is not published; a quarter.
            write_cache: true,
            write_cache_sectors: 131_072,
        }
    }
}
