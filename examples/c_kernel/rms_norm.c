/* A kernel plugin in C: rms_norm, as docs/ops.md defines it, for float32 and bfloat16. T
 * tokens, D dim:
 *
 *     rstd = 1/sqrt(mean(x^2) + eps)
 *     n    = x*rstd                      rounded to storage where the cast comes before the weight
 *     y    = n*(offset + weight)
 *
 *     forward:   x [T,D], weight [D]                         ->  y [T,D], rstd [T]
 *     backward:  dy, x [T,D], weight [D], rstd [T]           ->  dx [T,D], dweight [D] unless frozen
 */
#include "tune_plugin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A use of the op: its facts, read once for each call. */
typedef struct {
	int dtype, weight_dtype; /* storage of activations and of the weight */
	int dim, offset, round;  /* round: the cast comes before the weight */
	int frozen;
	double eps;
} use;

static use use_of(const tune_facts *f) {
	return (use){
		.dtype = tune_dtype(tune_fact(f, "dtype")),
		.weight_dtype = tune_dtype(tune_fact(f, "weight_dtype")),
		.dim = (int)tune_fact_int(f, "dim"),
		.offset = (int)tune_fact_int(f, "offset"),
		.round = strcmp(tune_fact(f, "cast"), "before_weight") == 0,
		.frozen = strcmp(tune_fact(f, "frozen"), "true") == 0,
		.eps = strtod(tune_fact(f, "eps"), NULL),
	};
}

static int half_or_float(int dtype) { return dtype == TUNE_FLOAT32 || dtype == TUNE_BFLOAT16; }

static int supports(const tune_facts *f, char *why) {
	const char *unknown = tune_only(f, "dtype weight_dtype dim eps offset cast frozen");
	use u = use_of(f);
	if (unknown)
		return tune_say(why, TUNE_NOT_SUPPORTED, "c_rms_norm does not know the fact %s", unknown);
	if (!half_or_float(u.dtype) || !half_or_float(u.weight_dtype))
		return tune_say(why, TUNE_NOT_SUPPORTED, "c_rms_norm computes on float32 and bfloat16, not on %s with weights in %s",
		                tune_fact(f, "dtype"), tune_fact(f, "weight_dtype"));
	if (!u.round && strcmp(tune_fact(f, "cast"), "after_weight") != 0)
		return tune_say(why, TUNE_NOT_SUPPORTED, "c_rms_norm does not know the cast %s", tune_fact(f, "cast"));
	return TUNE_OK;
}

/* Scratch memory, kept from call to call: there is one call at a time. */
static double *sums;                 /* [D]: of dweight */
static float *gain, *row, *dy, *out; /* [D] */

static int has_room(int dim) {
	static int room;
	if (dim <= room)
		return 1;
	sums = (double *)realloc(sums, (size_t)dim * sizeof *sums);
	gain = (float *)realloc(gain, (size_t)dim * sizeof *gain);
	row = (float *)realloc(row, (size_t)dim * sizeof *row);
	dy = (float *)realloc(dy, (size_t)dim * sizeof *dy);
	out = (float *)realloc(out, (size_t)dim * sizeof *out);
	room = sums && gain && row && dy && out ? dim : 0;
	return room > 0;
}

/* start makes sure of the form of all tensors, and leaves offset + weight in gain. x is the
 * first of the inputs [T,D], of which there are some, then weight and perhaps rstd. */
static int start(const tune_call *c, use u, int rows, int outputs) {
	int backward = rows > 1, inputs = rows + 1 + backward;
	if (c->inputs != inputs || c->outputs != outputs)
		return tune_say(c->why, TUNE_BAD_CALL, "%d inputs and %d outputs", c->inputs, c->outputs);
	int64_t T = c->in[0].shape[0];
	int ok = tune_has(&c->in[rows], u.weight_dtype, 1, u.dim, 0) && tune_has(&c->out[0], u.dtype, 2, T, u.dim);
	for (int i = 0; i < rows; i++)
		ok = ok && tune_has(&c->in[i], u.dtype, 2, T, u.dim);
	if (backward)
		ok = ok && tune_has(&c->in[rows + 1], TUNE_FLOAT32, 1, T, 0) && (u.frozen || tune_has(&c->out[1], TUNE_FLOAT32, 1, u.dim, 0));
	else
		ok = ok && tune_has(&c->out[1], TUNE_FLOAT32, 1, T, 0);
	if (!ok)
		return tune_say(c->why, TUNE_BAD_CALL, "a tensor has another form than the facts say");
	if (!has_room(u.dim))
		return tune_say(c->why, TUNE_FAILED, "no memory for rows of %d", u.dim);
	tune_load(gain, &c->in[rows], 0, u.dim);
	for (int i = 0; i < u.dim; i++)
		gain[i] += (float)u.offset;
	return TUNE_OK;
}

static int forward(const tune_call *c) {
	use u = use_of(c->facts);
	int status = start(c, u, 1, 2);
	if (status != TUNE_OK)
		return status;
	float *rstd = (float *)c->out[1].data;
	for (int64_t t = 0; t < c->in[0].shape[0]; t++) {
		double squares = 0;
		tune_load(row, &c->in[0], t * u.dim, u.dim);
		for (int i = 0; i < u.dim; i++)
			squares += (double)row[i] * row[i];
		rstd[t] = (float)(1 / sqrt(squares / u.dim + u.eps));
		for (int i = 0; i < u.dim; i++) {
			float n = row[i] * rstd[t];
			out[i] = (u.round ? tune_round(n, u.dtype) : n) * gain[i];
		}
		tune_store(&c->out[0], t * u.dim, out, u.dim);
	}
	return TUNE_OK;
}

/* With g = dy*(offset + weight):
 *
 *     dx      = rstd * (g - n*mean(g*n))     the mean is what the derivative of rstd takes off
 *     dweight = sum over t of dy*n
 */
static int backward(const tune_call *c) {
	use u = use_of(c->facts);
	int status = start(c, u, 2, u.frozen ? 1 : 2);
	if (status != TUNE_OK)
		return status;
	const float *rstd = (const float *)c->in[3].data;
	memset(sums, 0, (size_t)u.dim * sizeof *sums);
	for (int64_t t = 0; t < c->in[0].shape[0]; t++) {
		double mean = 0;
		tune_load(dy, &c->in[0], t * u.dim, u.dim);
		tune_load(row, &c->in[1], t * u.dim, u.dim);
		for (int i = 0; i < u.dim; i++)
			mean += (double)dy[i] * gain[i] * (row[i] * rstd[t]) / u.dim;
		for (int i = 0; i < u.dim; i++) {
			float n = row[i] * rstd[t];
			out[i] = (float)(rstd[t] * ((double)dy[i] * gain[i] - n * mean));
			sums[i] += (double)dy[i] * (u.round ? tune_round(n, u.dtype) : n);
		}
		tune_store(&c->out[0], t * u.dim, out, u.dim);
	}
	for (int i = 0; !u.frozen && i < u.dim; i++)
		((float *)c->out[1].data)[i] = (float)sums[i];
	return TUNE_OK;
}

int main(void) {
	const tune_kernel kernels[] = {{
		.op = "rms_norm",
		.summary = "root mean square norm in C, one thread",
		.dtypes = "float32,bfloat16",
		.supports = supports,
		.forward = forward,
		.backward = backward,
		.by_threads = 0,
		.keeps = 0,
	}};
	return tune_serve("c_rms_norm", "1.0.0", kernels, 1);
}
