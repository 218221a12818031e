/* Kernels for tune in C: what an author of kernels needs to know.
 *
 * A plugin is a program whose main function is one call of tune_serve. Everything
 * about processes and shared memory is behind it, in tune_plugin.c; what the ops
 * compute is in docs/ops.md, and how the two processes talk in docs/protocol.md.
 * Linux, C11, nothing but libc:
 *
 *     cc -O3 -o my_kernel kernel.c tune_plugin.c -lm -lpthread
 */
#ifndef TUNE_PLUGIN_H
#define TUNE_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" { /* kernels may be in C++; tune_plugin.c is C */
#endif

/* How a pass or a question ended. */
enum {
	TUNE_OK = 0,
	TUNE_FAILED = 1,        /* it went wrong */
	TUNE_NOT_SUPPORTED = 2, /* not for these facts: something else will do the work */
	TUNE_BAD_CALL = 3,      /* a tensor is missing, or has the wrong form or content */
};

/* How elements are stored. */
enum {
	TUNE_FLOAT32 = 1,
	TUNE_BFLOAT16 = 2,
	TUNE_FLOAT16 = 3,
	TUNE_INT32 = 4,
	TUNE_FLOAT64 = 5,
	TUNE_INT64 = 6,
	TUNE_INT8 = 7,
	TUNE_NF4 = 8, /* two to a byte, the first in its high half */
};

enum {
	TUNE_MAX_RANK = 5,
	TUNE_WHY = 512, /* room for a reason, with its terminating zero */
};

/* A dense, row-major tensor. Its data starts at a multiple of the element's size. */
typedef struct {
	int dtype, rank;
	int64_t shape[TUNE_MAX_RANK];
	void *data; /* NULL for a tensor without elements */
	/* Of an input: the number of its content, for a kernel that keeps what it made of it, such
	 * as a copy on a device. An input with the number of an earlier one has its bytes, wherever
	 * either lies; 0 says nothing. At most as many bytes as TUNE_KEEP says are to be kept. */
	uint64_t content;
} tune_tensor;

/* What distinguishes one use of an op from another, as names and values. */
typedef struct tune_facts tune_facts;

/* tune_fact returns the value of a fact, "" if it is not set. */
const char *tune_fact(const tune_facts *facts, const char *name);

/* tune_fact_int returns the value of a fact that is a whole number, 0 if it is not set. */
int64_t tune_fact_int(const tune_facts *facts, const char *name);

/* tune_only returns the name of a fact that is not among the names given, separated by
 * spaces, or NULL. A kernel must refuse facts that it does not know: they may change
 * what the op means. */
const char *tune_only(const tune_facts *facts, const char *names);

/* One pass of a kernel. Inputs can only be read: writing to one ends the process. Every
 * element of every output must be written, whatever was there before. */
typedef struct {
	const tune_facts *facts;
	const char *site; /* where in the model, for messages */
	int inputs, outputs;
	const tune_tensor *in;
	const tune_tensor *out;
	char *why; /* for tune_say */
} tune_call;

/* A kernel for one op. */
typedef struct {
	const char *op;      /* "swiglu" */
	const char *summary; /* one line for people */
	const char *dtypes;  /* "float32,bfloat16" */
	/* supports returns TUNE_OK, or TUNE_NOT_SUPPORTED after a tune_say that names the
	 * fact at fault. Passes are run only with facts that it agreed to. */
	int (*supports)(const tune_facts *facts, char *why);
	int (*forward)(const tune_call *call);
	int (*backward)(const tune_call *call); /* NULL: never used in training */
	/* A pass may use threads, at most as many as TUNE_THREADS in the environment says, 0 being as
	 * many as there are cores. 1 if the bits of what it computes depend on how many there are. */
	int by_threads;
	int keeps; /* 1 if it keeps what it makes of frozen weights: only then do these have a content */
} tune_kernel;

/* tune_dtype returns what a name such as "bfloat16" stands for, 0 for none. */
int tune_dtype(const char *name);

/* tune_load widens n elements of a float32 or bfloat16 tensor, from element at on.
 * tune_store rounds them, to the nearest and to even in the middle; a NaN stays one.
 * tune_round rounds to what dtype can store, and stays with float. */
void tune_load(float *to, const tune_tensor *from, int64_t at, int n);
void tune_store(const tune_tensor *to, int64_t at, const float *from, int n);
float tune_round(float v, int dtype);

/* tune_has reports whether a tensor is of that type and shape. The host has checked it, too:
 * a mistake in a kernel would be a crash. */
int tune_has(const tune_tensor *t, int dtype, int rank, int64_t first, int64_t second);

/* tune_say writes down a reason, like printf, and returns the status. */
int tune_say(char *why, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* tune_serve is the whole main function of a plugin: it serves the kernels to the host
 * that started the process, and ends the process when the host does. It returns, with
 * an exit status, only if it cannot start; started by hand, it says what it is for. */
int tune_serve(const char *name, const char *version, const tune_kernel *kernels, int count);

#ifdef __cplusplus
}
#endif

#endif
