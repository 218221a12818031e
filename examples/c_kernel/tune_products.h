/* Products of matrices for kernels in C: right, on one thread, and made to be replaced by those of a library or a
 * device. Matrices are float32 and row-major; what is stored as bfloat16 is widened as a whole first.
 */
#ifndef TUNE_PRODUCTS_H
#define TUNE_PRODUCTS_H

#include "tune_plugin.h"

#include <stdlib.h>
#include <string.h>

/* Scratch memory, kept from call to call: there is one call at a time. */
typedef struct {
	float *data;
	int64_t size;
} tune_room;

/* tune_zeros returns n zeros in a room, NULL if there is no memory. */
static inline float *tune_zeros(tune_room *room, int64_t n) {
	if (n >= room->size) {
		free(room->data);
		room->size = n + 1;
		room->data = (float *)malloc((size_t)room->size * sizeof *room->data);
		if (!room->data)
			room->size = 0;
	}
	return room->data ? (float *)memset(room->data, 0, (size_t)n * sizeof *room->data) : NULL;
}

static inline int64_t tune_elements(const tune_tensor *t) {
	int64_t n = 1;
	for (int i = 0; i < t->rank; i++)
		n *= t->shape[i];
	return n;
}

/* tune_floats returns the elements of an input: where they lie if they are float32, or widened in a room; NULL if
 * there is no memory. */
static inline const float *tune_floats(tune_room *room, const tune_tensor *t) {
	enum { PIECE = 1 << 20 };
	static const float none = 0;
	int64_t n = tune_elements(t);
	if (n == 0)
		return &none;
	if (t->dtype == TUNE_FLOAT32)
		return (const float *)t->data;
	float *wide = tune_zeros(room, n);
	for (int64_t i = 0; wide && i < n; i += PIECE)
		tune_load(wide + i, t, i, n - i < PIECE ? (int)(n - i) : PIECE);
	return wide;
}

/* tune_sums returns zeros to add up an output in: in its own memory if it is float32, in a room if not, from where
 * tune_keep rounds them to it. NULL if there is no memory. */
static inline float *tune_sums(tune_room *room, const tune_tensor *t) {
	int64_t n = tune_elements(t);
	if (t->dtype != TUNE_FLOAT32 || n == 0)
		return tune_zeros(room, n);
	return (float *)memset(t->data, 0, (size_t)n * sizeof(float));
}

static inline void tune_keep(const tune_tensor *t, const float *sums) {
	enum { PIECE = 1 << 20 };
	int64_t n = tune_elements(t);
	for (int64_t i = 0; sums != t->data && i < n; i += PIECE)
		tune_store(t, i, sums + i, n - i < PIECE ? (int)(n - i) : PIECE);
}

/* tune_dot adds up eight sums side by side, of which compilers make vectors. */
static inline float tune_dot(const float *a, const float *b, int64_t n) {
	float sums[8] = {0}, sum = 0;
	int64_t i = 0;
	for (; i + 8 <= n; i += 8)
		for (int j = 0; j < 8; j++)
			sums[j] += a[i + j] * b[i + j];
	for (; i < n; i++)
		sum += a[i] * b[i];
	for (int j = 0; j < 8; j++)
		sum += sums[j];
	return sum;
}

/* y [M,N] += scale * x [M,K] w [N,K]^T: what a linear layer makes of M tokens. */
static inline void tune_add_linear(float *y, float scale, const float *x, const float *w, int64_t M, int64_t N, int64_t K) {
	for (int64_t m = 0; m < M; m++)
		for (int64_t n = 0; n < N; n++)
			y[m * N + n] += scale * tune_dot(x + m * K, w + n * K, K);
}

/* dx [M,K] += scale * dy [M,N] w [N,K]: what that gives back to its input. */
static inline void tune_add_input(float *dx, float scale, const float *dy, const float *w, int64_t M, int64_t N, int64_t K) {
	for (int64_t m = 0; m < M; m++)
		for (int64_t n = 0; n < N; n++) {
			float d = scale * dy[m * N + n];
			for (int64_t k = 0; k < K; k++)
				dx[m * K + k] += d * w[n * K + k];
		}
}

/* dw [N,K] += scale * dy [M,N]^T x [M,K]: and to its weight. */
static inline void tune_add_weight(float *dw, float scale, const float *dy, const float *x, int64_t M, int64_t N, int64_t K) {
	for (int64_t n = 0; n < N; n++)
		for (int64_t m = 0; m < M; m++) {
			float d = scale * dy[m * N + n];
			for (int64_t k = 0; k < K; k++)
				dw[n * K + k] += d * x[m * K + k];
		}
}

#endif
