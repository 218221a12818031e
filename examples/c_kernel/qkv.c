/* A kernel plugin in C: qkv, as docs/ops.md defines it, for float32 and bfloat16. T tokens, D dim; for n each of
 * q, k and v, with N rows, which are heads*head_dim of q and kv_heads*head_dim of k and v:
 *
 *     n = x n_weight^T + n_bias
 *     dx = the sum of dn n_weight,  dn_weight = dn^T x,  dn_bias = the sum of dn's rows
 *
 *     forward:   x [T,D], three weights [N,D], three biases [N]            ->  q, k, v [T,N]
 *     backward:  dq, dk, dv [T,N], x unless frozen, three weights          ->  dx [T,D], three dweights, three dbiases
 *
 * Frozen weights have neither dweights nor dbiases.
 */
#include "tune_products.h"

/* A use of the op: its facts, read once for each call. */
typedef struct {
	int dtype, weight_dtype; /* storage of activations and of the weights */
	int64_t dim, rows[3];    /* rows of q, k and v */
	int bias, frozen;
} use;

static int is_true(const tune_facts *f, const char *name) { return strcmp(tune_fact(f, name), "true") == 0; }

static use use_of(const tune_facts *f) {
	int64_t head = tune_fact_int(f, "head_dim"), kv = head * tune_fact_int(f, "kv_heads");
	return (use){
		.dtype = tune_dtype(tune_fact(f, "dtype")),
		.weight_dtype = tune_dtype(tune_fact(f, "weight_dtype")),
		.dim = tune_fact_int(f, "dim"),
		.rows = {head * tune_fact_int(f, "heads"), kv, kv},
		.bias = is_true(f, "bias"),
		.frozen = is_true(f, "frozen"),
	};
}

static int half_or_float(int dtype) { return dtype == TUNE_FLOAT32 || dtype == TUNE_BFLOAT16; }

static int supports(const tune_facts *f, char *why) {
	const char *unknown = tune_only(f, "dtype weight_dtype dim head_dim heads kv_heads bias frozen");
	use u = use_of(f);
	if (unknown)
		return tune_say(why, TUNE_NOT_SUPPORTED, "c_qkv does not know the fact %s", unknown);
	if (!half_or_float(u.dtype) || !half_or_float(u.weight_dtype))
		return tune_say(why, TUNE_NOT_SUPPORTED, "c_qkv computes on float32 and bfloat16, not on %s with weights in %s",
		                tune_fact(f, "dtype"), tune_fact(f, "weight_dtype"));
	return TUNE_OK;
}

/* What a call has: three tensors from a pointer on, which is NULL for what it has not. */
typedef struct {
	const tune_tensor *x, *weight, *bias, *y; /* y: q, k, v or their gradients */
	const tune_tensor *dx, *dweight, *dbias;
} tensors;

/* of_call finds the tensors and makes sure of their form. The host has done that, too; a mistake here would be a crash. */
static int of_call(const tune_call *c, use u, int backward, tensors *t) {
	const tune_tensor *in = c->in, *out = c->out;
	memset(t, 0, sizeof *t);
	if (backward) {
		t->y = in, in += 3;
		t->dx = out++;
	}
	if (!backward || !u.frozen)
		t->x = in++;
	t->weight = in, in += 3;
	if (!backward) {
		t->y = out, out += 3;
		if (u.bias)
			t->bias = in, in += 3;
	} else if (!u.frozen) {
		t->dweight = out, out += 3;
		if (u.bias)
			t->dbias = out, out += 3;
	}
	if (in - c->in != c->inputs || out - c->out != c->outputs)
		return tune_say(c->why, TUNE_BAD_CALL, "%d inputs and %d outputs", c->inputs, c->outputs);
	int64_t T = c->in[0].shape[0];
	int ok = (!t->x || tune_has(t->x, u.dtype, 2, T, u.dim)) && (!t->dx || tune_has(t->dx, u.dtype, 2, T, u.dim));
	for (int n = 0; n < 3; n++) {
		ok = ok && tune_has(&t->y[n], u.dtype, 2, T, u.rows[n]) && tune_has(&t->weight[n], u.weight_dtype, 2, u.rows[n], u.dim);
		ok = ok && (!t->bias || tune_has(&t->bias[n], TUNE_FLOAT32, 1, u.rows[n], 0));
		ok = ok && (!t->dweight || tune_has(&t->dweight[n], TUNE_FLOAT32, 2, u.rows[n], u.dim));
		ok = ok && (!t->dbias || tune_has(&t->dbias[n], TUNE_FLOAT32, 1, u.rows[n], 0));
	}
	if (!ok)
		return tune_say(c->why, TUNE_BAD_CALL, "a tensor has another form than the facts say");
	return TUNE_OK;
}

static tune_room rooms[4];

static int no_memory(const tune_call *c) { return tune_say(c->why, TUNE_FAILED, "no memory to widen the tensors in"); }

static int forward(const tune_call *c) {
	use f = use_of(c->facts);
	tensors t;
	int status = of_call(c, f, 0, &t);
	if (status != TUNE_OK)
		return status;
	int64_t T = t.x->shape[0];
	const float *x = tune_floats(&rooms[0], t.x);
	for (int n = 0; n < 3; n++) {
		const float *weight = tune_floats(&rooms[1], &t.weight[n]);
		float *y = tune_sums(&rooms[2], &t.y[n]);
		if (!x || !weight || !y)
			return no_memory(c);
		tune_add_linear(y, 1, x, weight, T, f.rows[n], f.dim);
		for (int64_t i = 0; f.bias && i < T * f.rows[n]; i++)
			y[i] += ((const float *)t.bias[n].data)[i % f.rows[n]];
		tune_keep(&t.y[n], y);
	}
	return TUNE_OK;
}

static int backward(const tune_call *c) {
	use f = use_of(c->facts);
	tensors t;
	int status = of_call(c, f, 1, &t);
	if (status != TUNE_OK)
		return status;
	int64_t T = t.dx->shape[0];
	float *dx = tune_sums(&rooms[3], t.dx);
	for (int n = 0; n < 3; n++) {
		const float *dy = tune_floats(&rooms[0], &t.y[n]), *weight = tune_floats(&rooms[1], &t.weight[n]);
		const float *x = t.x ? tune_floats(&rooms[2], t.x) : dy; /* if it is not there it is not read */
		if (!dx || !dy || !weight || !x)
			return no_memory(c);
		tune_add_input(dx, 1, dy, weight, T, f.rows[n], f.dim);
		if (t.dweight) /* gradients of weights are float32: they are added up where they lie */
			tune_add_weight(tune_sums(NULL, &t.dweight[n]), 1, dy, x, T, f.rows[n], f.dim);
		if (t.dbias) {
			float *dbias = tune_sums(NULL, &t.dbias[n]);
			for (int64_t i = 0; i < T * f.rows[n]; i++)
				dbias[i % f.rows[n]] += dy[i];
		}
	}
	tune_keep(t.dx, dx);
	return TUNE_OK;
}

int main(void) {
	const tune_kernel kernels[] = {{
		.op = "qkv",
		.summary = "q, k and v in C, one thread",
		.dtypes = "float32,bfloat16",
		.supports = supports,
		.forward = forward,
		.backward = backward,
		.by_threads = 0,
		.keeps = 0,
	}};
	return tune_serve("c_qkv", "1.0.0", kernels, 1);
}
