/* A kernel plugin in C: linear, as docs/ops.md defines it, for float32 and bfloat16. T tokens, D dim, N out, R the
 * rank of the adapter, 0 where there is none:
 *
 *     u = scale * x A^T,  v = scale * dy B                 [T,R]
 *     y = x weight^T + bias + u B^T
 *     dx = dy weight + v A,  dweight = dy^T x,  dbias = the sum of dy's rows,  dA = v^T x,  dB = dy^T u
 *
 *     forward:   x [T,D], weight [N,D], bias [N], A [R,D], B [N,R]     ->  y [T,N]
 *     backward:  dy [T,N], x, weight, A, B        ->  dx [T,D], dweight [N,D], dbias [N], dA [R,D], dB [N,R]
 *
 * A frozen weight has neither dweight nor dbias, and without an adapter there is no x in backward then.
 */
#include "tune_products.h"

/* A use of the op: its facts, read once for each call. */
typedef struct {
	int dtype, weight_dtype; /* storage of activations and of the weight */
	int64_t dim, out, rank;
	int bias, frozen;
	float scale;
} use;

static int is_true(const tune_facts *f, const char *name) { return strcmp(tune_fact(f, name), "true") == 0; }

static use use_of(const tune_facts *f) {
	return (use){
		.dtype = tune_dtype(tune_fact(f, "dtype")),
		.weight_dtype = tune_dtype(tune_fact(f, "weight_dtype")),
		.dim = tune_fact_int(f, "dim"),
		.out = tune_fact_int(f, "out"),
		.rank = tune_fact_int(f, "rank"),
		.bias = is_true(f, "bias"),
		.frozen = is_true(f, "frozen"),
		.scale = strtof(tune_fact(f, "scale"), NULL),
	};
}

static int half_or_float(int dtype) { return dtype == TUNE_FLOAT32 || dtype == TUNE_BFLOAT16; }

static int supports(const tune_facts *f, char *why) {
	const char *unknown = tune_only(f, "dtype weight_dtype dim out bias rank scale frozen");
	use u = use_of(f);
	if (unknown)
		return tune_say(why, TUNE_NOT_SUPPORTED, "c_linear does not know the fact %s", unknown);
	if (!half_or_float(u.dtype) || !half_or_float(u.weight_dtype))
		return tune_say(why, TUNE_NOT_SUPPORTED, "c_linear computes on float32 and bfloat16, not on %s with weights in %s",
		                tune_fact(f, "dtype"), tune_fact(f, "weight_dtype"));
	return TUNE_OK;
}

/* What a call has, NULL for what it has not. */
typedef struct {
	const tune_tensor *x, *dy, *weight, *bias, *a, *b, *y, *dx, *dweight, *dbias, *da, *db;
} tensors;

/* of_call finds the tensors and makes sure of their form. The host has done that, too; a mistake here would be a crash. */
static int of_call(const tune_call *c, use u, int backward, tensors *t) {
	const tune_tensor *in = c->in, *out = c->out;
	memset(t, 0, sizeof *t);
	if (backward)
		t->dy = in++;
	if (!backward || !u.frozen || u.rank > 0)
		t->x = in++;
	t->weight = in++;
	if (!backward && u.bias)
		t->bias = in++;
	if (u.rank > 0) {
		t->a = in++;
		t->b = in++;
	}
	if (backward) {
		t->dx = out++;
		if (!u.frozen)
			t->dweight = out++;
		if (!u.frozen && u.bias)
			t->dbias = out++;
		if (u.rank > 0) {
			t->da = out++;
			t->db = out++;
		}
	} else {
		t->y = out++;
	}
	if (in - c->in != c->inputs || out - c->out != c->outputs)
		return tune_say(c->why, TUNE_BAD_CALL, "%d inputs and %d outputs", c->inputs, c->outputs);
	int64_t T = c->in[0].shape[0];
	struct {
		const tune_tensor *is;
		int dtype, rank;
		int64_t first, second;
	} forms[] = {
		{t->x, u.dtype, 2, T, u.dim},
		{t->dy, u.dtype, 2, T, u.out},
		{t->weight, u.weight_dtype, 2, u.out, u.dim},
		{t->bias, TUNE_FLOAT32, 1, u.out, 0},
		{t->a, TUNE_FLOAT32, 2, u.rank, u.dim},
		{t->b, TUNE_FLOAT32, 2, u.out, u.rank},
		{t->y, u.dtype, 2, T, u.out},
		{t->dx, u.dtype, 2, T, u.dim},
		{t->dweight, TUNE_FLOAT32, 2, u.out, u.dim},
		{t->dbias, TUNE_FLOAT32, 1, u.out, 0},
		{t->da, TUNE_FLOAT32, 2, u.rank, u.dim},
		{t->db, TUNE_FLOAT32, 2, u.out, u.rank},
	};
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
		if (forms[i].is && !tune_has(forms[i].is, forms[i].dtype, forms[i].rank, forms[i].first, forms[i].second))
			return tune_say(c->why, TUNE_BAD_CALL, "a tensor has another form than the facts say");
	return TUNE_OK;
}

static tune_room rooms[6];

static int no_memory(const tune_call *c) { return tune_say(c->why, TUNE_FAILED, "no memory to widen the tensors in"); }

static int forward(const tune_call *c) {
	use f = use_of(c->facts);
	tensors t;
	int status = of_call(c, f, 0, &t);
	if (status != TUNE_OK)
		return status;
	int64_t T = t.x->shape[0];
	const float *x = tune_floats(&rooms[0], t.x), *weight = tune_floats(&rooms[1], t.weight);
	float *y = tune_sums(&rooms[2], t.y), *u = tune_zeros(&rooms[3], T * f.rank);
	if (!x || !weight || !y || !u)
		return no_memory(c);
	tune_add_linear(y, 1, x, weight, T, f.out, f.dim);
	for (int64_t i = 0; f.bias && i < T * f.out; i++)
		y[i] += ((const float *)t.bias->data)[i % f.out];
	if (f.rank > 0) {
		tune_add_linear(u, f.scale, x, (const float *)t.a->data, T, f.rank, f.dim);
		tune_add_linear(y, 1, u, (const float *)t.b->data, T, f.out, f.rank);
	}
	tune_keep(t.y, y);
	return TUNE_OK;
}

static int backward(const tune_call *c) {
	use f = use_of(c->facts);
	tensors t;
	int status = of_call(c, f, 1, &t);
	if (status != TUNE_OK)
		return status;
	int64_t T = t.dy->shape[0];
	const float *dy = tune_floats(&rooms[0], t.dy), *weight = tune_floats(&rooms[1], t.weight);
	const float *x = t.x ? tune_floats(&rooms[2], t.x) : dy; /* if it is not there it is not read */
	float *dx = tune_sums(&rooms[3], t.dx);
	float *u = tune_zeros(&rooms[4], T * f.rank), *v = tune_zeros(&rooms[5], T * f.rank);
	if (!dy || !weight || !x || !dx || !u || !v)
		return no_memory(c);
	tune_add_input(dx, 1, dy, weight, T, f.out, f.dim);
	if (t.dweight) /* gradients of weights are float32: they are added up where they lie */
		tune_add_weight(tune_sums(NULL, t.dweight), 1, dy, x, T, f.out, f.dim);
	if (t.dbias) {
		float *dbias = tune_sums(NULL, t.dbias);
		for (int64_t i = 0; i < T * f.out; i++)
			dbias[i % f.out] += dy[i];
	}
	if (f.rank > 0) {
		tune_add_linear(u, f.scale, x, (const float *)t.a->data, T, f.rank, f.dim);
		tune_add_input(v, f.scale, dy, (const float *)t.b->data, T, f.out, f.rank);
		tune_add_input(dx, 1, v, (const float *)t.a->data, T, f.rank, f.dim);
		tune_add_weight(tune_sums(NULL, t.da), 1, v, x, T, f.rank, f.dim);
		tune_add_weight(tune_sums(NULL, t.db), 1, dy, u, T, f.out, f.rank);
	}
	tune_keep(t.dx, dx);
	return TUNE_OK;
}

int main(void) {
	const tune_kernel kernels[] = {{
		.op = "linear",
		.summary = "a linear layer and its adapter in C, one thread",
		.dtypes = "float32,bfloat16",
		.supports = supports,
		.forward = forward,
		.backward = backward,
		.by_threads = 0,
		.keeps = 0,
	}};
	return tune_serve("c_linear", "1.0.0", kernels, 1);
}
