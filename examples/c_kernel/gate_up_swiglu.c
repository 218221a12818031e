/* A kernel plugin in C: gate_up_swiglu, as docs/ops.md defines it, for float32 and bfloat16. T tokens, D dim, I
 * intermediate, s(g) = 1/(1+exp(-g)):
 *
 *     g = x gate^T,  u = x up^T                            rounded to the storage of activations
 *     y = g * s(g) * u
 *     dg = dy * u * (s + g*s*(1-s)),  du = dy * g * s
 *     dx = dg gate + du up,  dgate = dg^T x,  dup = du^T x
 *
 *     forward:   x [T,D], gate, up [I,D]                        ->  y [T,I], g and u [T,2I] to be saved
 *     backward:  dy [T,I], x, gate, up, what was saved          ->  dx [T,D], dgate, dup [I,D]
 *
 * With recompute g and u are not saved but computed again. Packed, gate_up [2I,D] is in place of gate and up. Frozen
 * weights have no gradients, and x is there in backward for these and for recompute.
 */
#include "tune_products.h"

#include <math.h>

/* A use of the op: its facts, read once for each call. */
typedef struct {
	int dtype, weight_dtype; /* storage of activations and of the weights */
	int64_t dim, intermediate;
	int packed, recompute, frozen;
} use;

static int is(const tune_facts *f, const char *name, const char *value) { return strcmp(tune_fact(f, name), value) == 0; }

static use use_of(const tune_facts *f) {
	return (use){
		.dtype = tune_dtype(tune_fact(f, "dtype")),
		.weight_dtype = tune_dtype(tune_fact(f, "weight_dtype")),
		.dim = tune_fact_int(f, "dim"),
		.intermediate = tune_fact_int(f, "intermediate"),
		.packed = is(f, "layout", "packed"),
		.recompute = is(f, "recompute", "true"),
		.frozen = is(f, "frozen", "true"),
	};
}

static int half_or_float(int dtype) { return dtype == TUNE_FLOAT32 || dtype == TUNE_BFLOAT16; }

static int supports(const tune_facts *f, char *why) {
	const char *unknown = tune_only(f, "dtype weight_dtype dim intermediate activation layout recompute frozen");
	use u = use_of(f);
	if (unknown)
		return tune_say(why, TUNE_NOT_SUPPORTED, "c_gate_up_swiglu does not know the fact %s", unknown);
	if (!half_or_float(u.dtype) || !half_or_float(u.weight_dtype))
		return tune_say(why, TUNE_NOT_SUPPORTED, "c_gate_up_swiglu computes on float32 and bfloat16, not on %s with weights in %s",
		                tune_fact(f, "dtype"), tune_fact(f, "weight_dtype"));
	if (!is(f, "activation", "silu"))
		return tune_say(why, TUNE_NOT_SUPPORTED, "c_gate_up_swiglu knows silu, not %s", tune_fact(f, "activation"));
	if (!u.packed && !is(f, "layout", "separate"))
		return tune_say(why, TUNE_NOT_SUPPORTED, "c_gate_up_swiglu does not know the layout %s", tune_fact(f, "layout"));
	return TUNE_OK;
}

/* What a call has, NULL for what it has not. weight and dweight are the first of two, or the only one if packed. */
typedef struct {
	const tune_tensor *x, *weight, *y, *saved; /* y: or its gradient */
	const tune_tensor *dx, *dweight;
} tensors;

/* of_call finds the tensors and makes sure of their form. The host has done that, too; a mistake here would be a crash. */
static int of_call(const tune_call *c, use u, int backward, tensors *t) {
	const tune_tensor *in = c->in, *out = c->out;
	int weights = u.packed ? 1 : 2;
	memset(t, 0, sizeof *t);
	if (backward)
		t->y = in++;
	if (!backward || !u.frozen || u.recompute)
		t->x = in++;
	t->weight = in, in += weights;
	if (backward) {
		if (!u.recompute)
			t->saved = in++;
		t->dx = out++;
		if (!u.frozen)
			t->dweight = out, out += weights;
	} else {
		t->y = out++;
		if (!u.recompute)
			t->saved = out++;
	}
	if (in - c->in != c->inputs || out - c->out != c->outputs)
		return tune_say(c->why, TUNE_BAD_CALL, "%d inputs and %d outputs", c->inputs, c->outputs);
	int64_t T = c->in[0].shape[0], I = u.intermediate, rows = 2 * I / weights;
	int ok = tune_has(t->y, u.dtype, 2, T, I) && (!t->x || tune_has(t->x, u.dtype, 2, T, u.dim));
	ok = ok && (!t->saved || tune_has(t->saved, u.dtype, 2, T, 2 * I)) && (!t->dx || tune_has(t->dx, u.dtype, 2, T, u.dim));
	for (int i = 0; i < weights; i++) {
		ok = ok && tune_has(&t->weight[i], u.weight_dtype, 2, rows, u.dim);
		ok = ok && (!t->dweight || tune_has(&t->dweight[i], TUNE_FLOAT32, 2, rows, u.dim));
	}
	if (!ok)
		return tune_say(c->why, TUNE_BAD_CALL, "a tensor has another form than the facts say");
	return TUNE_OK;
}

static tune_room rooms[8];

static int no_memory(const tune_call *c) { return tune_say(c->why, TUNE_FAILED, "no memory to widen the tensors in"); }

/* weights_of returns gate and up as float32, 0 if there is no memory. */
static int weights_of(use f, const tune_tensor *weight, const float **gate, const float **up) {
	*gate = tune_floats(&rooms[0], weight);
	*up = !f.packed ? tune_floats(&rooms[1], weight + 1) : *gate ? *gate + f.intermediate * f.dim : NULL;
	return *gate && *up;
}

/* products computes g and u, each [T,I], rounded as they would be stored. */
static int products(use f, const tune_tensor *x, const float *gate, const float *up, float **g, float **u) {
	int64_t T = x->shape[0], n = T * f.intermediate;
	const float *wide = tune_floats(&rooms[2], x);
	*g = tune_zeros(&rooms[3], n);
	*u = tune_zeros(&rooms[4], n);
	if (!wide || !*g || !*u)
		return 0;
	tune_add_linear(*g, 1, wide, gate, T, f.intermediate, f.dim);
	tune_add_linear(*u, 1, wide, up, T, f.intermediate, f.dim);
	for (int64_t i = 0; i < n; i++) {
		(*g)[i] = tune_round((*g)[i], f.dtype);
		(*u)[i] = tune_round((*u)[i], f.dtype);
	}
	return 1;
}

/* again reads g and u from where forward saved them. */
static int again(use f, const tune_tensor *saved, float **g, float **u) {
	int64_t T = saved->shape[0], I = f.intermediate;
	*g = tune_zeros(&rooms[3], T * I);
	*u = tune_zeros(&rooms[4], T * I);
	for (int64_t t = 0; *g && *u && t < T; t++) {
		tune_load(*g + t * I, saved, 2 * t * I, (int)I);
		tune_load(*u + t * I, saved, (2 * t + 1) * I, (int)I);
	}
	return *g && *u;
}

/* exp of a large number is +Inf, and 1/(1+Inf) is 0: nothing turns into NaN. */
static float sigmoid(float g) { return 1 / (1 + expf(-g)); }

static int forward(const tune_call *c) {
	use f = use_of(c->facts);
	tensors t;
	int status = of_call(c, f, 0, &t);
	if (status != TUNE_OK)
		return status;
	int64_t T = t.x->shape[0], I = f.intermediate;
	const float *gate, *up;
	float *g, *u, *y = tune_sums(&rooms[5], t.y);
	if (!y || !weights_of(f, t.weight, &gate, &up) || !products(f, t.x, gate, up, &g, &u))
		return no_memory(c);
	for (int64_t i = 0; i < T * I; i++)
		y[i] = g[i] * sigmoid(g[i]) * u[i];
	tune_keep(t.y, y);
	for (int64_t i = 0; t.saved && i < T; i++) {
		tune_store(t.saved, 2 * i * I, g + i * I, (int)I);
		tune_store(t.saved, (2 * i + 1) * I, u + i * I, (int)I);
	}
	return TUNE_OK;
}

static int backward(const tune_call *c) {
	use f = use_of(c->facts);
	tensors t;
	int status = of_call(c, f, 1, &t);
	if (status != TUNE_OK)
		return status;
	int64_t T = t.dx->shape[0], I = f.intermediate, D = f.dim;
	const float *gate, *up, *dy = tune_floats(&rooms[5], t.y);
	float *g, *u, *dx = tune_sums(&rooms[6], t.dx);
	if (!dy || !dx || !weights_of(f, t.weight, &gate, &up))
		return no_memory(c);
	if (!(t.saved ? again(f, t.saved, &g, &u) : products(f, t.x, gate, up, &g, &u)))
		return no_memory(c);
	for (int64_t i = 0; i < T * I; i++) { /* in place: dg where g was, and du where u was */
		float s = sigmoid(g[i]), dg = dy[i] * u[i] * (s + g[i] * s * (1 - s));
		u[i] = dy[i] * g[i] * s;
		g[i] = dg;
	}
	tune_add_input(dx, 1, g, gate, T, I, D);
	tune_add_input(dx, 1, u, up, T, I, D);
	tune_keep(t.dx, dx);
	if (t.dweight) { /* gradients of weights are float32: they are added up where they lie */
		const float *x = tune_floats(&rooms[7], t.x);
		float *dgate = tune_sums(NULL, t.dweight), *dup = f.packed ? dgate + I * D : tune_sums(NULL, t.dweight + 1);
		if (!x)
			return no_memory(c);
		tune_add_weight(dgate, 1, g, x, T, I, D);
		tune_add_weight(dup, 1, u, x, T, I, D);
	}
	return TUNE_OK;
}

int main(void) {
	const tune_kernel kernels[] = {{
		.op = "gate_up_swiglu",
		.summary = "gate, up and SwiGLU in C, one thread",
		.dtypes = "float32,bfloat16",
		.supports = supports,
		.forward = forward,
		.backward = backward,
		.by_threads = 0,
		.keeps = 0,
	}};
	return tune_serve("c_gate_up_swiglu", "1.0.0", kernels, 1);
}
