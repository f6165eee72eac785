//! Drives of the papers.
//!
//! Three kinds of numbers, told apart at each. *Published*: from the maker's sheets; those of the NAND from
//! sheets or conference papers of chips of the same generation, because makers of drives do not name theirs.
//! *Typical*: of the generation, or an assumption where nothing is known. *Derived*: follows from a published
//! figure of the drive, which then is no check of the model; the laboratory's validation says so beside it.
//!
//! Looked up when this was written: the ten channels, twenty packages and 16 MiB of the first X25 drives
//! (reviews at Tom's Hardware and X-bit labs), Micron's 50 nm class SLC sheet (MT29F4G08AAA: 25 us, 220 us,
//! 1.5 ms, 25 ns a byte), the 535's sheet (540 and 490 MB/s, 45,000 and 80,000 IOPS), Micron's 16 nm 128 Gb
//! die (16 KiB pages, 512 a block over two planes), the 980 PRO's 7000 and 5000 MB/s, 1,000,000 IOPS and
//! measured rates beyond its cache (TechPowerUp). The other published numbers are cited from knowledge of
//! sheets and papers, and want comparing with them.

use super::params::SsdParams;

impl SsdParams {
    /// Intel X25-E 64 GB, 2008: SLC, ten channels, SATA 3 Gb/s; the SSD of raid4s-modthresh.
    ///
    /// Published: 125,045,424 sectors, 250 MB/s read, 170 MB/s written in sequence, 35,000 random reads and
    /// 3,300 random writes of 4 KiB a second at queue depth 32, latencies of 75 us (read) and 85 us (write).
    pub fn intel_x25e_64() -> Self {
        Self {
            name: "X25-E",
            sectors: 125_045_424,
            // Published: ten channels.
            channels: 10,
            // Derived. Twenty packages hang on them, but how many of their chips the firmware lets work at
            // once is not published. 170 MB/s written are 17 MB/s a channel; one chip of two planes gives 8
            // KiB in 2 * 102 us on the bus and 220 us of programming, 19 MB/s, and two in turns would give
            // 37. So: one at a time.
            dies_per_channel: 1,
            // 64 pages of 4 KiB in each of two planes, and 80 GiB in all: typical of the generation. X25-M
            // with the same board holds twenty packages of 4 GiB for 80 GB.
            blocks_per_die: 16_384,
            pages_per_block: 64,
            page_units: 2,
            pages_per_program: 1,
            // Published for Micron's SLC of the same years (MT29F4G08AAA); the first at most, the others
            // typically.
            read_ns: 25_000,
            program_ns: 220_000,
            erase_ns: 1_500_000,
            // A byte in 25 ns, likewise.
            channel_bytes_per_s: 40_000_000,
            // Derived from the 35,000 random reads a second.
            command_ns: 28_500,
            // Typical.
            status_ns: 5_000,
            // SATA 3 Gb/s with 8b10b coding.
            interface_bytes_per_s: 300_000_000,
            // NCQ has 32 tags and libata uses 31.
            queue_depth: 31,
            // User data is said to stay out of the 16 MiB of SDRAM, in 256 KiB within the controller
            // (reviews).
            buffer_units: 64,
            write_buffer: true,
            power_loss_protected: false,
        }
    }

    /// Intel 535 120 GB, 2015: MLC of 16 nm, SandForce SF-2281, SATA 6 Gb/s; the SSDs of rafs.
    ///
    /// Published: 234,441,648 sectors, 540 MB/s read, up to 490 MB/s written in sequence, 45,000 random reads
    /// a second at queue depth 32, and 80,000 random writes, by a drive out of the box. The controller
    /// compresses, and the rates for writes are those of data that compresses well; the model does not
    /// compress.
    pub fn intel_535_120() -> Self {
        Self {
            name: "Intel 535",
            sectors: 234_441_648,
            // Published for the controller.
            channels: 8,
            // 128 GiB of dies of 128 Gb.
            dies_per_channel: 1,
            // Published for Micron's 128 Gb die of 16 nm: 16 KiB pages, 512 a block, two planes. That makes
            // 1024 blocks of both planes.
            blocks_per_die: 1024,
            pages_per_block: 512,
            page_units: 8,
            pages_per_program: 1,
            // Typical of MLC at 20 to 16 nm.
            read_ns: 75_000,
            program_ns: 1_500_000,
            erase_ns: 4_000_000,
            // Published for the controller: 166 MT/s.
            channel_bytes_per_s: 166_000_000,
            // Derived from the 45,000 random reads a second.
            command_ns: 22_200,
            // Typical.
            status_ns: 5_000,
            // SATA 6 Gb/s with 8b10b coding.
            interface_bytes_per_s: 600_000_000,
            // NCQ has 32 tags and libata uses 31.
            queue_depth: 31,
            // There is no DRAM; the controller's own buffer is not published. Assumed: two programs for each
            // die.
            buffer_units: 128,
            write_buffer: true,
            power_loss_protected: false,
        }
    }

    /// Samsung 980 PRO 1 TB, 2020: TLC V-NAND of 128 layers, PCIe 4.0 x4; the SSDs of scalaraid.
    ///
    /// Published: 1,953,525,168 sectors, 7000 MB/s read, 5000 MB/s written in sequence and 2000 MB/s beyond
    /// the TurboWrite cache, at queue depth 1 22,000 random reads and 60,000 random writes a second, at depth
    /// 32 from 16 threads 1,000,000 of either. The cache (cells used for one bit, up to 114 GB) is not
    /// modelled: the model writes as the drive does beyond it.
    pub fn samsung_980_pro_1tb() -> Self {
        Self {
            name: "980 PRO",
            sectors: 1_953_525_168,
            // Published for the controller (Elpis).
            channels: 8,
            // 1 TiB of dies of 256 Gb (reviews).
            dies_per_channel: 4,
            // Typical: 16 KiB pages in two planes; 1152 pages of both make a block of 36 MiB, of which 910
            // are 32 GiB.
            blocks_per_die: 910,
            pages_per_block: 1152,
            page_units: 8,
            // A word line's three pages at once.
            pages_per_program: 3,
            // Published for the generation at ISSCC 2019: 45 us, and 82 MB/s of programming a die, hence 96
            // KiB in 1.2 ms.
            read_ns: 45_000,
            program_ns: 1_200_000,
            // Typical.
            erase_ns: 3_500_000,
            // Published there: 1.2 Gb/s a pin.
            channel_bytes_per_s: 1_200_000_000,
            // Derived from the 1,000,000 random reads a second.
            command_ns: 1_000,
            // Typical: completion entry and interrupt. The host's software is not part of the drive.
            status_ns: 4_000,
            // PCIe 4.0 x4 with 128b130b coding.
            interface_bytes_per_s: 7_877_000_000,
            // What 16 queues of 32 hold; the drive takes more.
            queue_depth: 512,
            // A share of the 1 GiB of DRAM, most of which holds the map: two programs for each die and some.
            // Assumed.
            buffer_units: 2048,
            write_buffer: true,
            power_loss_protected: false,
        }
    }
}
