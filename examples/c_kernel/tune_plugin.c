/* The plugin's side of tune's bare protocol; docs/protocol.md says what each number
 * means. Two threads: the main one answers requests in the shared control memory, the
 * other maps the memory regions that the host sends, and ends the process when the host
 * is gone. */
#define _GNU_SOURCE
#include "tune_plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PROTOCOL "5"

/* Descriptors that the host leaves open. */
enum { LIFELINE = 3, CONTROL = 4 };

/* The control memory. */
enum {
	TEXT_SIZE = 3824, /* of an answer */
	RECORD = 4096,
	CONTROL_SIZE = 1 << 20,
	RECORD_SIZE = CONTROL_SIZE - RECORD,
};

typedef struct {
	_Atomic uint32_t request; /* number of the latest request */
	uint32_t kind, ask_length;
	_Alignas(64) _Atomic uint32_t reply; /* number of the latest answer */
	_Alignas(64) _Atomic uint32_t plugin_asleep;
	_Alignas(64) _Atomic uint32_t host_asleep;
	_Alignas(64) uint32_t status;
	uint32_t text_length;
	uint64_t busy_ns;
	char text[TEXT_SIZE];
	unsigned char record[RECORD_SIZE]; /* of a call, or the text of another request */
} control;

_Static_assert(offsetof(control, reply) == 64 && offsetof(control, status) == 256, "layout");
_Static_assert(offsetof(control, text) == 272 && offsetof(control, record) == RECORD, "layout");

enum { CALL, DESCRIBE, SUPPORTS, BIND }; /* kinds of requests */

/* The record of a call: a header, then an entry for every tensor, inputs first. */
enum { MAX_SITE = 112 };

typedef struct {
	uint32_t handle, inputs, outputs, site_length;
	char site[MAX_SITE];
} header;

typedef struct {
	uint32_t region;
	uint8_t dtype, rank, unused[2];
	uint64_t offset;
	uint64_t shape[TUNE_MAX_RANK];
	uint64_t content;
} entry;

_Static_assert(sizeof(header) == 128 && sizeof(entry) == 64, "layout");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are little-endian");

static const char *plugin_name, *plugin_version;
static const tune_kernel *kernels;
static int kernel_count;

/* grow returns an array with room for one element more. */
static void *grow(void *array, size_t count, size_t size) {
	array = realloc(array, (count + 1) * size);
	if (!array) {
		fprintf(stderr, "%s: out of memory\n", plugin_name);
		_exit(1);
	}
	return array;
}

int tune_say(char *why, int status, const char *format, ...) {
	va_list args;
	va_start(args, format);
	vsnprintf(why, TUNE_WHY, format, args);
	va_end(args);
	return status;
}

/* ---- Facts: lines name=value, cut into strings. ---- */

enum { MAX_FACTS = 64 };

struct tune_facts {
	int count;
	const char *name[MAX_FACTS], *value[MAX_FACTS];
};

/* parse_facts cuts up the text, which it changes and which has to stay. */
static bool parse_facts(tune_facts *f, char *text) {
	f->count = 0;
	for (char *line, *rest = text; (line = strsep(&rest, "\n")) && (*line || rest);) {
		char *value = strchr(line, '=');
		if (!value || f->count == MAX_FACTS)
			return false;
		*value++ = 0;
		f->name[f->count] = line;
		f->value[f->count++] = value;
	}
	return true;
}

/* shift takes the first line off, which must have the name. */
static const char *shift(tune_facts *f, const char *name) {
	if (f->count == 0 || strcmp(f->name[0], name) != 0)
		return NULL;
	const char *value = f->value[0];
	f->count--;
	memmove(f->name, f->name + 1, (size_t)f->count * sizeof f->name[0]);
	memmove(f->value, f->value + 1, (size_t)f->count * sizeof f->value[0]);
	return value;
}

const char *tune_fact(const tune_facts *f, const char *name) {
	for (int i = 0; i < f->count; i++)
		if (strcmp(f->name[i], name) == 0)
			return f->value[i];
	return "";
}

int64_t tune_fact_int(const tune_facts *f, const char *name) {
	return strtoll(tune_fact(f, name), NULL, 10);
}

const char *tune_only(const tune_facts *f, const char *names) {
	for (int i = 0; i < f->count; i++) {
		size_t n = strlen(f->name[i]);
		const char *at = names;
		while (*at && !(strncmp(at, f->name[i], n) == 0 && (at[n] == ' ' || !at[n]))) {
			at += strcspn(at, " ");
			at += strspn(at, " ");
		}
		if (!*at)
			return f->name[i];
	}
	return NULL;
}

/* ---- Tensors. ---- */

static const char *dtype_names[] = {"", "float32", "bfloat16", "float16", "int32", "float64", "int64", "int8", "nf4"};

int tune_dtype(const char *name) {
	for (int i = 1; i < (int)(sizeof dtype_names / sizeof *dtype_names); i++)
		if (strcmp(name, dtype_names[i]) == 0)
			return i;
	return 0;
}

static float widen(uint16_t h) {
	uint32_t bits = (uint32_t)h << 16;
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

static uint16_t narrow(float f) {
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	if (f != f)
		return (uint16_t)(bits >> 16 | 0x40);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void tune_load(float *to, const tune_tensor *from, int64_t at, int n) {
	if (from->dtype == TUNE_FLOAT32)
		memcpy(to, (const float *)from->data + at, (size_t)n * sizeof *to);
	else
		for (int i = 0; i < n; i++)
			to[i] = widen(((const uint16_t *)from->data)[at + i]);
}

void tune_store(const tune_tensor *to, int64_t at, const float *from, int n) {
	if (to->dtype == TUNE_FLOAT32)
		memcpy((float *)to->data + at, from, (size_t)n * sizeof *from);
	else
		for (int i = 0; i < n; i++)
			((uint16_t *)to->data)[at + i] = narrow(from[i]);
}

float tune_round(float v, int dtype) { return dtype == TUNE_BFLOAT16 ? widen(narrow(v)) : v; }

int tune_has(const tune_tensor *t, int dtype, int rank, int64_t first, int64_t second) {
	return t->dtype == dtype && t->rank == rank && t->shape[0] == first && (rank < 2 || t->shape[1] == second);
}

/* ---- Regions: memory of the host and of this plugin, mapped here. ---- */

typedef struct {
	uint32_t id;
	bool writable;
	char *data;
	uint64_t size;
} region;

static region *regions;
static size_t region_count;
static pthread_mutex_t regions_lock = PTHREAD_MUTEX_INITIALIZER;

static region *find_region(uint32_t id) {
	for (size_t i = 0; i < region_count; i++)
		if (regions[i].id == id)
			return &regions[i];
	return NULL;
}

/* What the host says about a region over the lifeline. */
typedef struct {
	uint32_t region, what;
	uint64_t size;
} message;

enum { MAP_READ_ONLY, MAP_WRITABLE, UNMAP }; /* what */

static int unmap_region(uint32_t id, char *why) {
	region *r = find_region(id);
	if (!r)
		return tune_say(why, 1, "region %u is to be unmapped and was not passed", id);
	munmap(r->data, r->size);
	*r = regions[--region_count];
	return 0;
}

static int map_region(const message *m, int fd, char *why) {
	if (fd < 0)
		return tune_say(why, 1, "region %u came without its descriptor", m->region);
	if (m->region == 0 || find_region(m->region))
		return tune_say(why, 1, "region %u came twice", m->region);
	bool writable = m->what == MAP_WRITABLE;
	void *data = mmap(NULL, m->size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (data == MAP_FAILED)
		return tune_say(why, 1, "map region %u: %s", m->region, strerror(errno));
	regions = grow(regions, region_count, sizeof *regions);
	regions[region_count++] = (region){m->region, writable, data, m->size};
	return 0;
}

/* receive waits for a message and returns the descriptor that came with it, or -1. */
static int receive(message *m) {
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} rights;
	struct iovec part = {m, sizeof *m};
	struct msghdr h = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &rights, .msg_controllen = sizeof rights};
	ssize_t n;
	do
		n = recvmsg(LIFELINE, &h, MSG_WAITALL | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n != sizeof *m)
		_exit(0); /* the host is gone, or wants this process to end */
	struct cmsghdr *c = CMSG_FIRSTHDR(&h);
	int fd = -1;
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof fd);
	return fd;
}

static void *follow_host(void *unused) {
	for (;;) {
		message m;
		char answer[1 + TUNE_WHY] = {0};
		int fd = receive(&m);
		pthread_mutex_lock(&regions_lock);
		answer[0] = (char)(m.what == UNMAP ? unmap_region(m.region, answer + 1) : map_region(&m, fd, answer + 1));
		pthread_mutex_unlock(&regions_lock);
		if (fd >= 0)
			close(fd);
		size_t n = strnlen(answer + 1, TUNE_WHY - 1);
		if (send(LIFELINE, answer, 1 + n, MSG_NOSIGNAL) < 0)
			_exit(0);
	}
	return unused;
}

/* ---- Requests. ---- */

/* A pass of a kernel, bound to facts. */
typedef struct {
	const tune_kernel *kernel;
	bool backward;
	tune_facts facts;
} bound;

static bound *bounds;
static size_t bound_count;

static int describe(char *text) {
	int n = snprintf(text, TEXT_SIZE, "name=%s\nversion=%s\n", plugin_name, plugin_version);
	for (int i = 0; i < kernel_count && n < TEXT_SIZE; i++)
		n += snprintf(text + n, (size_t)(TEXT_SIZE - n), "kernel=%s\nsummary=%s\ndtypes=%s\nbackward=%s\n%s%s", kernels[i].op,
		              kernels[i].summary, kernels[i].dtypes, kernels[i].backward ? "true" : "false",
		              kernels[i].by_threads ? "by_threads=true\n" : "", kernels[i].keeps ? "keeps=true\n" : "");
	return n < TEXT_SIZE ? TUNE_OK : tune_say(text, TUNE_FAILED, "the description is longer than %d bytes", TEXT_SIZE);
}

/* ask_kernel reads which kernel, and if asked for which pass, a question is about, and
 * asks the kernel about the facts. */
static int ask_kernel(bound *b, char *question, bool with_pass, char *text) {
	const char *number, *pass = "forward";
	if (!parse_facts(&b->facts, question) || !(number = shift(&b->facts, "kernel")) ||
	    (with_pass && !(pass = shift(&b->facts, "pass"))))
		return tune_say(text, TUNE_BAD_CALL, "the question is not made of lines name=value, or lacks one");
	unsigned long i = strtoul(number, NULL, 10);
	if (i >= (unsigned long)kernel_count)
		return tune_say(text, TUNE_BAD_CALL, "there is no kernel %s", number);
	b->kernel = &kernels[i];
	b->backward = strcmp(pass, "backward") == 0;
	if (b->backward && !b->kernel->backward)
		return tune_say(text, TUNE_NOT_SUPPORTED, "%s has no backward pass", b->kernel->op);
	return b->kernel->supports(&b->facts, text);
}

/* supports_or_binds answers both questions about facts. */
static int supports_or_binds(control *c) {
	bound b;
	size_t n = c->ask_length < RECORD_SIZE ? c->ask_length : RECORD_SIZE;
	char *question = strndup((char *)c->record, n); /* the facts point into it */
	int status = ask_kernel(&b, question, c->kind == BIND, c->text);
	if (status != TUNE_OK || c->kind != BIND) {
		free(question);
		return status;
	}
	bounds = grow(bounds, bound_count, sizeof *bounds);
	bounds[bound_count] = b;
	return tune_say(c->text, TUNE_OK, "handle=%zu\n", bound_count++);
}

/* find_tensor turns an entry into a tensor that lies in memory of this process. */
static int find_tensor(const entry *e, bool output, tune_tensor *t, char *text) {
	static const uint64_t sizes[] = {0, 4, 2, 2, 4, 8, 8, 1, 1};
	if (e->dtype == 0 || e->dtype >= sizeof sizes / sizeof *sizes || e->rank > TUNE_MAX_RANK)
		return tune_say(text, TUNE_BAD_CALL, "tensor of dtype %d with %d axes", e->dtype, e->rank);
	*t = (tune_tensor){.dtype = e->dtype, .rank = e->rank, .content = getenv("TUNE_KEEP") ? e->content : 0};
	uint64_t bytes = sizes[e->dtype];
	bool empty = false, large = false;
	for (int i = 0; i < t->rank; i++) {
		t->shape[i] = (int64_t)e->shape[i];
		empty |= e->shape[i] == 0;
		large |= e->shape[i] > INT64_MAX || __builtin_mul_overflow(bytes, e->shape[i], &bytes);
	}
	if (empty && !large)
		return TUNE_OK;
	if (e->dtype == TUNE_NF4)
		bytes = bytes / 2 + bytes % 2;
	region *r = find_region(e->region);
	if (!r)
		return tune_say(text, TUNE_BAD_CALL, "region %u was not passed", e->region);
	if (large || bytes > r->size || e->offset > r->size - bytes || e->offset % sizes[e->dtype] != 0)
		return tune_say(text, TUNE_BAD_CALL, "a tensor lies outside region %u, or not on a whole element", e->region);
	if (output && !r->writable)
		return tune_say(text, TUNE_BAD_CALL, "region %u may not be written", e->region);
	t->data = r->data + e->offset;
	return TUNE_OK;
}

static uint64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int call(control *c) {
	static tune_tensor *tensors;
	static size_t room;
	header h;
	memcpy(&h, c->record, sizeof h);
	size_t max = (RECORD_SIZE - sizeof h) / sizeof(entry), count = (size_t)h.inputs + h.outputs;
	if (h.handle >= bound_count || count > max || h.site_length > MAX_SITE)
		return tune_say(c->text, TUNE_BAD_CALL, "handle %u with %zu tensors", h.handle, count);
	for (; room < count; room++)
		tensors = grow(tensors, room, sizeof *tensors);
	const entry *entries = (const entry *)(c->record + sizeof h);
	int status = TUNE_OK;
	pthread_mutex_lock(&regions_lock);
	for (size_t i = 0; i < count && status == TUNE_OK; i++)
		status = find_tensor(&entries[i], i >= h.inputs, &tensors[i], c->text);
	pthread_mutex_unlock(&regions_lock);
	if (status != TUNE_OK)
		return status;
	char site[MAX_SITE + 1] = {0};
	memcpy(site, h.site, h.site_length);
	const bound *b = &bounds[h.handle];
	tune_call run = {&b->facts, site, (int)h.inputs, (int)h.outputs, tensors, tensors + h.inputs, c->text};
	uint64_t start = now();
	status = b->backward ? b->kernel->backward(&run) : b->kernel->forward(&run);
	c->busy_ns = now() - start;
	return status;
}

/* answer does what a request asks for. */
static void answer(control *c) {
	int status;
	c->text[0] = 0;
	c->busy_ns = 0;
	switch (c->kind) {
	case CALL:
		status = call(c);
		break;
	case DESCRIBE:
		status = describe(c->text);
		break;
	case SUPPORTS:
	case BIND:
		status = supports_or_binds(c);
		break;
	default:
		status = tune_say(c->text, TUNE_BAD_CALL, "a request of the unknown kind %u", c->kind);
	}
	c->status = (uint32_t)status;
	c->text_length = (uint32_t)strnlen(c->text, TEXT_SIZE);
}

/* ---- The doorbell. ---- */

static int64_t spin_ns; /* how long to wait actively before sleeping */

/* spin waits actively. When that was in vain three times in a row it tries only now and
 * then: the host may need the core. */
static void spin(_Atomic uint32_t *word, uint32_t old) {
	static unsigned misses;
	misses++;
	if (spin_ns <= 0 || (misses > 3 && misses % 64 != 0))
		return;
	for (uint64_t start = now(); now() - start < (uint64_t)spin_ns; sched_yield())
		for (int i = 0; i < 100; i++)
			if (atomic_load(word) != old) {
				misses = 0;
				return;
			}
}

/* await waits until the word is no longer old. The order of the two atomic accesses on
 * each side, all sequentially consistent, is what keeps a ring from being missed. */
static uint32_t await(_Atomic uint32_t *word, _Atomic uint32_t *asleep, uint32_t old) {
	uint32_t v = atomic_load(word);
	if (v == old)
		spin(word, old);
	atomic_store(asleep, 1);
	while ((v = atomic_load(word)) == old)
		syscall(SYS_futex, word, FUTEX_WAIT, old, NULL, NULL, 0);
	atomic_store(asleep, 0);
	return v;
}

static void ring(_Atomic uint32_t *word, _Atomic uint32_t *asleep, uint32_t value) {
	atomic_store(word, value);
	if (atomic_load(asleep))
		syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* ---- The life of a plugin. ---- */

static bool env_is(const char *name, const char *value) {
	const char *v = getenv(name);
	return v && strcmp(v, value) == 0;
}

/* shake_hands prints go-plugin's line: its own version, that of the protocol, a network
 * and an address that nobody will use, and how requests travel. From then on what the
 * kernels print goes to the host's log. */
static void shake_hands(void) {
	printf("1|" PROTOCOL "|unix|-|bare\n");
	fflush(stdout);
	dup2(STDERR_FILENO, STDOUT_FILENO);
}

int tune_serve(const char *name, const char *version, const tune_kernel *ks, int count) {
	plugin_name = name, plugin_version = version, kernels = ks, kernel_count = count;
	if (!env_is("TUNE_PLUGIN", "kernels")) {
		fprintf(stderr, "%s %s is a kernel plugin of tune; it is not run by hand.\n"
		                "Put it into a plugin folder and name that: tune --plugin-dir FOLDER ...\n", name, version);
		return 1;
	}
	if (!env_is("TUNE_LINK", "doorbell")) {
		shake_hands(); /* so that the host can say what is wrong */
		return pause();
	}
	const char *spin_text = getenv("TUNE_SPIN");
	spin_ns = spin_text ? strtoll(spin_text, NULL, 10) : 0;
	control *c = mmap(NULL, CONTROL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, CONTROL, 0);
	pthread_t lifeline;
	if (c == MAP_FAILED || (errno = pthread_create(&lifeline, NULL, follow_host, NULL)) != 0) {
		fprintf(stderr, "%s: %s\n", name, strerror(errno));
		return 1;
	}
	close(CONTROL);
	fcntl(LIFELINE, F_SETFD, FD_CLOEXEC);
	shake_hands();
	for (uint32_t number = atomic_load(&c->reply);;) {
		number = await(&c->request, &c->plugin_asleep, number);
		answer(c);
		ring(&c->reply, &c->host_asleep, number);
	}
}
