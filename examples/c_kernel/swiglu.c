/* A kernel plugin in C: swiglu, y = gate * s(gate) * up with s(g) = 1/(1+exp(-g)), as
 * docs/ops.md defines it, for float32 and bfloat16, gate and up separate or packed.
 *
 *     forward:   gate, up [T,I]          ->  y [T,I]
 *     backward:  dy, gate, up [T,I]      ->  dgate, dup [T,I]
 *     packed:    gate_up [T,2I], the gate first, in place of the pairs
 */
#include "tune_plugin.h"

#include <math.h>
#include <string.h>

/* Half of a [T,I] or [T,2I] tensor: element (t, i) is at t*stride + first + i. */
typedef struct {
	const tune_tensor *tensor;
	int64_t stride, first;
} matrix;

enum { BLOCK = 256 }; /* elements that are widened, worked on and rounded at a time */

static void load(float *to, matrix m, int64_t t, int64_t i, int n) {
	tune_load(to, m.tensor, t * m.stride + m.first + i, n);
}

static void store(matrix m, int64_t t, int64_t i, const float *from, int n) {
	tune_store(m.tensor, t * m.stride + m.first + i, from, n);
}

/* exp of a large number is +Inf, and 1/(1+Inf) is 0: nothing turns into NaN. */
static float sigmoid(float g) { return 1 / (1 + expf(-g)); }

static void forward_block(const float *gate, const float *up, float *y, int n) {
	for (int k = 0; k < n; k++)
		y[k] = gate[k] * sigmoid(gate[k]) * up[k];
}

static void backward_block(const float *dy, const float *gate, const float *up, float *dgate, float *dup, int n) {
	for (int k = 0; k < n; k++) {
		float g = gate[k], s = sigmoid(g);
		dgate[k] = dy[k] * up[k] * (s + g * s * (1 - s));
		dup[k] = dy[k] * g * s;
	}
}

static int is_packed(const tune_facts *f) { return strcmp(tune_fact(f, "layout"), "packed") == 0; }

static int dtype(const tune_facts *f) { return tune_dtype(tune_fact(f, "dtype")); }

static int supports(const tune_facts *f, char *why) {
	const char *unknown = tune_only(f, "dtype intermediate activation layout");
	if (unknown)
		return tune_say(why, TUNE_NOT_SUPPORTED, "c_swiglu does not know the fact %s", unknown);
	if (dtype(f) != TUNE_FLOAT32 && dtype(f) != TUNE_BFLOAT16)
		return tune_say(why, TUNE_NOT_SUPPORTED, "c_swiglu computes on float32 and bfloat16, not on %s", tune_fact(f, "dtype"));
	if (strcmp(tune_fact(f, "activation"), "silu") != 0)
		return tune_say(why, TUNE_NOT_SUPPORTED, "c_swiglu knows silu, not %s", tune_fact(f, "activation"));
	if (!is_packed(f) && strcmp(tune_fact(f, "layout"), "separate") != 0)
		return tune_say(why, TUNE_NOT_SUPPORTED, "c_swiglu does not know the layout %s", tune_fact(f, "layout"));
	return TUNE_OK;
}

/* check makes sure of the form of all tensors: dy or y is [T,I]; the others are [T,I],
 * or [T,2I] if packed. The host has checked it too; a mistake here would be a crash. */
static int check(const tune_call *c, int inputs, int outputs, const tune_tensor *single) {
	int64_t I = tune_fact_int(c->facts, "intermediate");
	if (c->inputs != inputs || c->outputs != outputs)
		return tune_say(c->why, TUNE_BAD_CALL, "%d inputs and %d outputs", c->inputs, c->outputs);
	for (int k = 0; k < inputs + outputs; k++) {
		const tune_tensor *t = k < inputs ? &c->in[k] : &c->out[k - inputs];
		int64_t width = is_packed(c->facts) && t != single ? 2 * I : I;
		if (!tune_has(t, dtype(c->facts), 2, c->in[0].shape[0], width))
			return tune_say(c->why, TUNE_BAD_CALL, "tensor %d has another form than the facts say", k);
	}
	return TUNE_OK;
}

/* halves finds gate and up, or their gradients, from a tensor on. */
static void halves(const tune_facts *f, const tune_tensor *t, matrix *gate, matrix *up) {
	int64_t I = tune_fact_int(f, "intermediate");
	if (is_packed(f)) {
		*gate = (matrix){t, 2 * I, 0};
		*up = (matrix){t, 2 * I, I};
	} else {
		*gate = (matrix){t, I, 0};
		*up = (matrix){t + 1, I, 0};
	}
}

static int forward(const tune_call *c) {
	int status = check(c, is_packed(c->facts) ? 1 : 2, 1, &c->out[0]);
	if (status != TUNE_OK)
		return status;
	int64_t T = c->in[0].shape[0], I = tune_fact_int(c->facts, "intermediate");
	matrix gate, up, y = {&c->out[0], I, 0};
	halves(c->facts, &c->in[0], &gate, &up);
	float g[BLOCK], u[BLOCK], out[BLOCK];
	for (int64_t t = 0; t < T; t++)
		for (int64_t i = 0; i < I; i += BLOCK) {
			int n = I - i < BLOCK ? (int)(I - i) : BLOCK;
			load(g, gate, t, i, n);
			load(u, up, t, i, n);
			forward_block(g, u, out, n);
			store(y, t, i, out, n);
		}
	return TUNE_OK;
}

static int backward(const tune_call *c) {
	int packed = is_packed(c->facts), status = check(c, packed ? 2 : 3, packed ? 1 : 2, &c->in[0]);
	if (status != TUNE_OK)
		return status;
	int64_t T = c->in[0].shape[0], I = tune_fact_int(c->facts, "intermediate");
	matrix dy = {&c->in[0], I, 0}, gate, up, dgate, dup;
	halves(c->facts, &c->in[1], &gate, &up);
	halves(c->facts, &c->out[0], &dgate, &dup);
	float d[BLOCK], g[BLOCK], u[BLOCK], dg[BLOCK], du[BLOCK];
	for (int64_t t = 0; t < T; t++)
		for (int64_t i = 0; i < I; i += BLOCK) {
			int n = I - i < BLOCK ? (int)(I - i) : BLOCK;
			load(d, dy, t, i, n);
			load(g, gate, t, i, n);
			load(u, up, t, i, n);
			backward_block(d, g, u, dg, du, n);
			store(dgate, t, i, dg, n);
			store(dup, t, i, du, n);
		}
	return TUNE_OK;
}

int main(void) {
	const tune_kernel kernels[] = {{
		.op = "swiglu",
		.summary = "SwiGLU in C, one thread",
		.dtypes = "float32,bfloat16",
		.supports = supports,
		.forward = forward,
		.backward = backward,
		.by_threads = 0,
		.keeps = 0,
	}};
	return tune_serve("c_swiglu", "1.0.0", kernels, 1);
}
