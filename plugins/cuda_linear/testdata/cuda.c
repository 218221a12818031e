// A CUDA driver and a cuBLAS for tests, as one library: what cuda_linear calls of both, on memory of the host. Streams are
// as late as they may be: what was asked for is done when somebody waits for it, and not before, so that whoever does not
// wait reads what is not there yet, or overwrites what is still to be read. A thread without the context is refused, and new
// memory holds NaN. With MEMORY, the device has so many bytes; with DEVICES, there are so many; with CALLS, products fail
// from that one on, as on a device that is lost; with COPIES, copies from that one on; with HANDLES, there is no cuBLAS.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../internal/ctest/sgemm.h"

#ifndef DEVICES
#define DEVICES 1
#endif
#ifndef MEMORY
#define MEMORY (1ull << 40)
#endif

enum { SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NO_DEVICE = 100, INVALID_CONTEXT = 201 };
enum { BLAS_EXECUTION_FAILED = 13 };

typedef struct stream stream;

typedef struct {
  stream *of;
  size_t count; // of what was asked of the stream before
} event;

typedef struct {
  enum { COPY, WAIT, PRODUCT } kind;
  void *to;
  const void *from;
  size_t bytes;
  event until;
  product product;
} work;

struct stream {
  work *asked; // of which those before first are forgotten
  size_t first, count, done, room;
};

typedef struct block {
  struct block *next;
  char *at;
  size_t bytes;
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int current;
static stream *streams[16];
static int streamCount;
static block *blocks;
static size_t taken;

static int fail(void) { fprintf(stderr, "the CUDA of tests was called wrongly\n"); abort(); }

// inside reports whether memory of the device holds that range, as all that the device alone touches must be.
static int inside(const void *at, size_t bytes) {
  for (block *b = blocks; b; b = b->next)
    if ((char *)at >= b->at && (char *)at + bytes <= b->at + b->bytes) return 1;
  return 0;
}

static void finish(event until) {
  for (stream *s = until.of; s && s->done < until.count;) {
    work w = s->asked[s->done++ - s->first];
    switch (w.kind) {
      case COPY: memcpy(w.to, w.from, w.bytes); break;
      case WAIT: finish(w.until); break;
      case PRODUCT: multiply(&w.product, w.product.k);
    }
  }
}

static void ask(stream *s, work w) {
  if (s->done == s->count) s->first = s->count;
  if (s->count - s->first == s->room) s->asked = realloc(s->asked, sizeof *s->asked * (s->room = 2 * s->room + 64));
  s->asked[s->count++ - s->first] = w;
}

#define ENTER \
  if (!current) return INVALID_CONTEXT; \
  pthread_mutex_lock(&lock)
#define LEAVE return pthread_mutex_unlock(&lock), SUCCESS

int cuInit(unsigned flags) { return flags ? INVALID_VALUE : DEVICES < 0 ? NO_DEVICE : SUCCESS; }
int cuDeviceGetCount(int *n) { return *n = DEVICES, SUCCESS; }
int cuDeviceGet(int *device, int i) { return *device = i, i < DEVICES ? SUCCESS : INVALID_VALUE; }
int cuDeviceGetName(char *name, int room, int device) {
  return device ? INVALID_VALUE : (snprintf(name, room, "Test Device"), SUCCESS);
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
  return *context = &current, device ? INVALID_VALUE : SUCCESS;
}
int cuCtxSetCurrent(void *context) { return current = context != NULL, SUCCESS; }
int cuGetErrorName(int error, const char **name) {
  return *name = error == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_OF_A_TEST", SUCCESS;
}
int cuGetErrorString(int error, const char **text) {
  return *text = error == NO_DEVICE ? "no CUDA-capable device is detected" : "an error", SUCCESS;
}

int cuMemGetInfo_v2(size_t *free, size_t *total) {
  ENTER;
  *free = MEMORY - taken, *total = MEMORY;
  LEAVE;
}

int cuMemAlloc_v2(void **at, size_t bytes) {
  ENTER;
  if (taken + bytes > MEMORY) return pthread_mutex_unlock(&lock), OUT_OF_MEMORY;
  block *b = malloc(sizeof *b);
  *b = (block){blocks, malloc(bytes), bytes};
  memset(b->at, 0xff, bytes);
  blocks = b, taken += bytes, *at = b->at;
  LEAVE;
}

int cuMemFree_v2(void *at) {
  ENTER;
  for (int i = 0; i < streamCount; i++) finish((event){streams[i], streams[i]->count});
  block **p = &blocks;
  while (*p && (*p)->at != at) p = &(*p)->next;
  if (!*p) fail();
  block *b = *p;
  taken -= b->bytes, *p = b->next;
  free(b->at);
  free(b);
  LEAVE;
}

int cuMemHostAlloc(void **at, size_t bytes, unsigned flags) {
  ENTER;
  *at = malloc(bytes);
  if (flags) fail();
  LEAVE;
}

int cuStreamCreate(stream **s, unsigned flags) {
  ENTER;
  *s = streams[streamCount++] = calloc(1, sizeof **s);
  if (flags != 1) fail();
  LEAVE;
}

int cuEventCreate(event **e, unsigned flags) {
  ENTER;
  *e = calloc(1, sizeof **e);
  if (flags != 2) fail();
  LEAVE;
}

int cuEventRecord(event *e, stream *s) {
  ENTER;
  *e = (event){s, s->count};
  LEAVE;
}

int cuEventSynchronize(event *e) {
  ENTER;
  finish(*e);
  LEAVE;
}

int cuStreamWaitEvent(stream *s, event *e, unsigned flags) {
  ENTER;
  if (flags) fail();
  ask(s, (work){.kind = WAIT, .until = *e});
  LEAVE;
}

int cuStreamSynchronize(stream *s) {
  ENTER;
  finish((event){s, s->count});
  LEAVE;
}

// copies counts a copy, and reports whether it fails.
static int copies(void) {
#ifdef COPIES
  static int asked;
  return ++asked >= COPIES;
#else
  return 0;
#endif
}

int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, stream *s) {
  ENTER;
  if (copies()) return pthread_mutex_unlock(&lock), INVALID_VALUE;
  if (!inside(to, bytes) || inside(from, bytes)) fail();
  ask(s, (work){.kind = COPY, .to = to, .from = from, .bytes = bytes});
  LEAVE;
}

int cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t bytes, stream *s) {
  ENTER;
  if (copies()) return pthread_mutex_unlock(&lock), INVALID_VALUE;
  if (inside(to, bytes) || !inside(from, bytes)) fail();
  ask(s, (work){.kind = COPY, .to = to, .from = from, .bytes = bytes});
  LEAVE;
}

static stream *blasStream;

#ifdef HANDLES
int cublasCreate_v2(void **handle) { return *handle = NULL, BLAS_EXECUTION_FAILED; }
#else
int cublasCreate_v2(void **handle) { return *handle = &blasStream, SUCCESS; }
#endif
int cublasGetProperty(int which, int *value) { return *value = which == 0 ? 13 : which, SUCCESS; }

int cublasSetStream_v2(void *handle, stream *s) {
  if (handle != &blasStream) fail();
  return blasStream = s, SUCCESS;
}

// fits reports whether an operand lies in memory of the device, by columns.
static int fits(const float *at, int trans, int rows, int cols, int ld) {
  if (trans) {
    int swap = rows;
    rows = cols, cols = swap;
  }
  return ld >= rows && inside(at, sizeof *at * ((size_t)ld * (cols - 1) + rows));
}

int cublasSgemm_v2(void *handle, int transa, int transb, int m, int n, int k, const float *alpha, const float *a, int lda,
                   const float *b, int ldb, const float *beta, float *c, int ldc) {
  ENTER;
#ifdef CALLS
  static int calls;
  if (++calls >= CALLS) return pthread_mutex_unlock(&lock), BLAS_EXECUTION_FAILED;
#endif
  if (handle != &blasStream || m < 1 || n < 1 || k < 1 || !fits(a, transa, m, k, lda) || !fits(b, transb, k, n, ldb) ||
      !fits(c, 0, m, n, ldc))
    fail();
  product q = {.transa = transa, .transb = transb, .m = m, .n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = ldc, .a = a, .b = b,
               .c = c, .alpha = *alpha, .beta = *beta};
  ask(blasStream, (work){.kind = PRODUCT, .product = q});
  LEAVE;
}
