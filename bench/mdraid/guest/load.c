/*
 * Loads a block device in a guest whose system calls are slow: raw AIO with O_DIRECT over buffers that are populated
 * before, two system calls for each batch, and the clock read without one.
 *
 *   load io DEVICE read|write sequential|random BLOCK DEPTH BATCH SPAN WARM_UP SECONDS LABEL
 *           in the first SPAN bytes; 0: in all
 *   load job ARRAY ACTION LABEL     starts what sync_action takes (check, repair), and waits for its end
 *   load rebuild ARRAY LABEL        waits for a rebuild to begin, and for its end
 *   load calls LABEL                what system calls cost
 *
 * Prints "@@B LABEL" before what is measured and "@@E LABEL NAME=VALUE..." after it, with a rest beside each, so that the
 * host can look at its counters.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define REST_MS 40
/* A rebuild that has not begun by then never will. */
#define BEGIN_MS 10000

struct load {
	int fd;
	bool write, random;
	long block_bytes;
	int depth, batch;
	uint64_t blocks, next;
	aio_context_t context;
	struct iocb *requests, **idle, **chosen;
	struct io_event *events;
	int idle_count;
};

struct done {
	uint64_t operations, calls;
	double seconds;
};

static uint64_t random_state = 88172645463325252ull;

static void die(const char *what)
{
	printf("@@X %s: %s\n", what, strerror(errno));
	fflush(stdout);
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void rest(int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000L };

	nanosleep(&t, NULL);
}

static double ticks_per_second(void)
{
	double start = now();
	uint64_t ticks = __rdtsc();

	rest(100);
	return (__rdtsc() - ticks) / (now() - start);
}

static uint64_t random_number(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static long bytes(const char *text)
{
	char *unit;
	long value = strtol(text, &unit, 10);

	return *unit == 'K' ? value << 10 : *unit == 'M' ? value << 20 : value;
}

static void begin(const char *label)
{
	printf("@@B %s\n", label);
	fflush(stdout);
	rest(REST_MS);
}

/* --- io ------------------------------------------------------------------------------------------------------- */

static void open_load(struct load *load, char **argument)
{
	uint64_t span_bytes;
	size_t buffer_bytes;
	char *buffer;

	load->write = !strcmp(argument[1], "write");
	load->random = !strcmp(argument[2], "random");
	load->block_bytes = bytes(argument[3]);
	load->depth = atoi(argument[4]);
	load->batch = atoi(argument[5]);
	load->fd = open(argument[0], (load->write ? O_WRONLY : O_RDONLY) | O_DIRECT);
	if (load->fd < 0 || ioctl(load->fd, BLKGETSIZE64, &span_bytes))
		die(argument[0]);
	if (bytes(argument[6]))
		span_bytes = bytes(argument[6]);
	load->blocks = span_bytes / load->block_bytes;

	buffer_bytes = load->block_bytes * load->depth;
	buffer = mmap(NULL, buffer_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (buffer == MAP_FAILED)
		die("mmap");
	random_state ^= __rdtsc(); /* a later run must not write what is there already */
	for (uint64_t *word = (uint64_t *)buffer; (char *)word < buffer + buffer_bytes; word++)
		*word = random_number();

	load->requests = calloc(load->depth, sizeof(*load->requests));
	load->idle = calloc(load->depth, sizeof(*load->idle));
	load->chosen = calloc(load->depth, sizeof(*load->chosen));
	load->events = calloc(load->depth, sizeof(*load->events));
	for (int i = 0; i < load->depth; i++) {
		load->requests[i] = (struct iocb) {
			.aio_fildes = load->fd,
			.aio_lio_opcode = load->write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD,
			.aio_buf = (uint64_t)(buffer + i * load->block_bytes),
			.aio_nbytes = load->block_bytes,
		};
		load->idle[i] = &load->requests[i];
	}
	load->idle_count = load->depth;
	if (syscall(SYS_io_setup, load->depth, &load->context))
		die("io_setup");
}

static uint64_t next_block(struct load *load)
{
	return load->random ? random_number() % load->blocks : load->next++ % load->blocks;
}

/* Submits a batch; returns the system calls that it took. */
static int submit(struct load *load)
{
	int calls = 0;

	for (int i = 0; i < load->batch; i++) {
		load->chosen[i] = load->idle[--load->idle_count];
		load->chosen[i]->aio_offset = next_block(load) * load->block_bytes;
	}
	for (int gone = 0; gone < load->batch; calls++) {
		long taken = syscall(SYS_io_submit, load->context, load->batch - gone, load->chosen + gone);

		if (taken <= 0)
			die("io_submit");
		gone += taken;
	}
	return calls;
}

/* Waits for `least` requests at least, and takes all that are done. */
static int collect(struct load *load, int least)
{
	int count = syscall(SYS_io_getevents, load->context, least, load->depth - load->idle_count, load->events, NULL);

	if (count < 0)
		die("io_getevents");
	for (int i = 0; i < count; i++) {
		if (load->events[i].res != load->block_bytes) {
			errno = load->events[i].res < 0 ? -load->events[i].res : EIO;
			die("an I/O");
		}
		load->idle[load->idle_count++] = (struct iocb *)load->events[i].obj;
	}
	return count;
}

/* Goes on for the time given, and then until nothing is in flight. */
static struct done run(struct load *load, double seconds, double ticks_a_second)
{
	struct done done = { 0 };
	uint64_t start = __rdtsc(), end = start + (uint64_t)(seconds * ticks_a_second);
	bool over = false;

	while (!over || load->idle_count < load->depth) {
		int in_flight;

		if (!over && load->idle_count >= load->batch)
			done.calls += submit(load);
		in_flight = load->depth - load->idle_count;
		done.operations += collect(load, over || in_flight < load->batch ? in_flight : load->batch);
		done.calls++;
		over = __rdtsc() >= end;
	}
	done.seconds = (__rdtsc() - start) / ticks_a_second;
	return done;
}

static void do_io(char **argument)
{
	double ticks_a_second = ticks_per_second();
	const char *label = argument[9];
	struct load load = { 0 };
	struct done done;

	open_load(&load, argument);
	run(&load, atof(argument[7]), ticks_a_second);
	begin(label);
	done = run(&load, atof(argument[8]), ticks_a_second);
	rest(REST_MS);
	printf("@@E %s bytes=%lu seconds=%.6f calls=%lu\n", label, done.operations * load.block_bytes, done.seconds,
	       done.calls);
}

/* --- jobs ----------------------------------------------------------------------------------------------------- */

static void read_attribute(const char *array, const char *name, char *text, int size)
{
	char path[128];
	int fd, count;

	snprintf(path, sizeof(path), "/sys/block/%s/md/%s", array, name);
	fd = open(path, O_RDONLY);
	if (fd < 0 || (count = read(fd, text, size - 1)) < 0)
		die(path);
	close(fd);
	text[count] = 0;
	text[strcspn(text, "\n")] = 0;
}

static bool is_idle(const char *array)
{
	char action[64];

	read_attribute(array, "sync_action", action, sizeof(action));
	return !strcmp(action, "idle");
}

static void start_job(const char *array, const char *action)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/sys/block/%s/md/sync_action", array);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, action, strlen(action)) < 0)
		die(path);
	close(fd);
}

/* A job's bytes are those of one member, as md itself counts. Without an action it is one that begins by itself. */
static void do_job(const char *array, const char *action, const char *label)
{
	char member_kib[64], mismatches[64];
	uint64_t looks = 0;
	double start;

	read_attribute(array, "component_size", member_kib, sizeof(member_kib));
	begin(label);
	for (int ms = 0; !action && is_idle(array); ms += 2) {
		if (ms > BEGIN_MS) {
			errno = ETIMEDOUT;
			die("a rebuild that should begin");
		}
		rest(2);
	}
	start = now();
	if (action)
		start_job(array, action);
	do {
		rest(10);
		looks++;
	} while (!is_idle(array));
	double seconds = now() - start;

	read_attribute(array, "mismatch_cnt", mismatches, sizeof(mismatches));
	rest(REST_MS);
	/* Each look opens, reads, closes, and rests. */
	printf("@@E %s bytes=%ld seconds=%.6f calls=%lu mismatches=%s\n", label, atol(member_kib) << 10, seconds, looks * 4,
	       mismatches);
}

/* --- system calls --------------------------------------------------------------------------------------------- */

static void do_calls(const char *label)
{
	const int rounds = 30000;
	struct timespec at_once = { 0 };
	aio_context_t context = 0;
	struct io_event event;
	struct iocb *none = NULL;
	double start, seconds;

	if (syscall(SYS_io_setup, 8, &context))
		die("io_setup");
	begin(label);
	start = now();
	for (int i = 0; i < rounds; i++) {
		syscall(SYS_io_submit, context, 0, &none);
		syscall(SYS_io_getevents, context, 0, 1, &event, &at_once);
	}
	seconds = now() - start;
	rest(REST_MS);
	printf("@@E %s seconds=%.6f calls=%d\n", label, seconds, 2 * rounds);
}

int main(int count, char **argument)
{
	const char *what = count > 1 ? argument[1] : "";

	if (count == 12 && !strcmp(what, "io")) {
		do_io(argument + 2);
	} else if (count == 5 && !strcmp(what, "job")) {
		do_job(argument[2], argument[3], argument[4]);
	} else if (count == 4 && !strcmp(what, "rebuild")) {
		do_job(argument[2], NULL, argument[3]);
	} else if (count == 3 && !strcmp(what, "calls")) {
		do_calls(argument[2]);
	} else {
		fprintf(stderr, "load: see the head of load.c for what it takes\n");
		return 2;
	}
	fflush(stdout);
	rest(REST_MS);
	return 0;
}
