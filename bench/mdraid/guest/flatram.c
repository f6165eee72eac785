// SPDX-License-Identifier: GPL-2.0
/*
 * flatram: RAM disks that are the cheapest members md can have, one memcpy per segment. The kernel's own (brd) looks up
 * every 4 KiB page in an xarray; here a page is found by one array access. All of it is allocated and zeroed at boot, so
 * that no page is populated while something is measured.
 *
 *   flatram.nr=6 flatram.mb=1024    /dev/flat0 to /dev/flat5, of 1 GiB each
 *   flatram.journal_mb=256          and /dev/journal, for a journal
 */
#include <linux/blkdev.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

/* The largest piece that the page allocator gives. */
#define PIECE_SHIFT 22
#define PIECE_BYTES (1u << PIECE_SHIFT)

static int nr;
module_param(nr, int, 0444);
static int mb = 1024;
module_param(mb, int, 0444);
static int journal_mb;
module_param(journal_mb, int, 0444);

struct flat {
	char **pieces;
};

/* A segment never crosses a page, but its place on the disk may cross a piece: sectors are smaller than pages. */
static void flat_copy(struct flat *flat, u64 at, char *memory, unsigned int left, bool write)
{
	while (left) {
		unsigned int within = at & (PIECE_BYTES - 1);
		unsigned int now = min(left, PIECE_BYTES - within);
		char *disk = flat->pieces[at >> PIECE_SHIFT] + within;

		if (write)
			memcpy(disk, memory, now);
		else
			memcpy(memory, disk, now);
		memory += now;
		at += now;
		left -= now;
	}
}

static void flat_submit_bio(struct bio *bio)
{
	struct flat *flat = bio->bi_bdev->bd_disk->private_data;
	u64 at = bio->bi_iter.bi_sector << SECTOR_SHIFT;
	bool write = op_is_write(bio->bi_opf);
	struct bio_vec segment;
	struct bvec_iter iter;

	/* A flush has nothing to do. */
	if (bio_op(bio) == REQ_OP_READ || bio_op(bio) == REQ_OP_WRITE) {
		bio_for_each_segment(segment, bio, iter) {
			flat_copy(flat, at, page_address(segment.bv_page) + segment.bv_offset, segment.bv_len, write);
			at += segment.bv_len;
		}
	}
	bio_endio(bio);
}

static const struct block_device_operations flat_operations = {
	.owner = THIS_MODULE,
	.submit_bio = flat_submit_bio,
};

static struct flat *flat_allocate(int disk_mb)
{
	int count = disk_mb >> (PIECE_SHIFT - 20);
	struct flat *flat = kzalloc(sizeof(*flat), GFP_KERNEL);

	if (!flat)
		return NULL;
	flat->pieces = kcalloc(count, sizeof(*flat->pieces), GFP_KERNEL);
	for (int i = 0; flat->pieces && i < count; i++) {
		struct page *page = alloc_pages(GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN, PIECE_SHIFT - PAGE_SHIFT);

		if (!page)
			return NULL; /* the guest ends; nobody needs what was taken */
		flat->pieces[i] = page_address(page);
	}
	return flat->pieces ? flat : NULL;
}

static int flat_add(int major, int index, const char *name, int disk_mb)
{
	struct queue_limits limits = {
		.physical_block_size = PAGE_SIZE,
		.features = BLK_FEAT_SYNCHRONOUS | BLK_FEAT_NOWAIT,
	};
	struct flat *flat = flat_allocate(disk_mb);
	struct gendisk *disk;

	if (!flat) {
		pr_err("flatram: no memory for %s of %d MiB\n", name, disk_mb);
		return -ENOMEM;
	}
	disk = blk_alloc_disk(&limits, NUMA_NO_NODE);
	if (IS_ERR(disk))
		return PTR_ERR(disk);
	disk->major = major;
	disk->first_minor = index;
	disk->minors = 1;
	disk->flags |= GENHD_FL_NO_PART;
	disk->fops = &flat_operations;
	disk->private_data = flat;
	strscpy(disk->disk_name, name, DISK_NAME_LEN);
	set_capacity(disk, (sector_t)disk_mb << (20 - SECTOR_SHIFT));
	return add_disk(disk);
}

static int __init flat_init(void)
{
	int major = register_blkdev(0, "flat");
	int error = major < 0 ? major : 0;

	for (int i = 0; i < nr && !error; i++) {
		char name[DISK_NAME_LEN];

		snprintf(name, sizeof(name), "flat%d", i);
		error = flat_add(major, i, name, mb);
	}
	if (journal_mb && !error)
		error = flat_add(major, nr, "journal", journal_mb);
	return error;
}
module_init(flat_init);
MODULE_DESCRIPTION("RAM disks found by one array access");
MODULE_LICENSE("GPL");
