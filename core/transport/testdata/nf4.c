/* linear in C with a frozen weight in NF4, as docs/ops.md defines it, and a kernel that says all that one can say of
 * itself. */
#include "tune_plugin.h"

static const float values[16] = {
	-1, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f, -0.18477343022823334f,
	-0.09105003625154495f, 0, 0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
	0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1};

static int supports(const tune_facts *f, char *why) {
	const char *unknown = tune_only(f, "dtype weight_dtype dim out frozen");
	if (unknown || tune_dtype(tune_fact(f, "dtype")) != TUNE_FLOAT32 || tune_dtype(tune_fact(f, "weight_dtype")) != TUNE_NF4)
		return tune_say(why, TUNE_NOT_SUPPORTED, "float32 with weights in nf4, not %s", unknown ? unknown : "other types");
	return TUNE_OK;
}

static float element(const tune_tensor *weight, int64_t i) {
	const unsigned char *codes = weight[0].data, *absmax = weight[1].data;
	const float *scale = weight[2].data;
	int64_t block = i / 64;
	float by = scale[absmax[block]] * scale[257 + block / 256];
	return values[i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4] * (by + scale[256]);
}

/* run gives y = x weight^T, or dx = dy weight. */
static int run(const tune_call *c, int backward) {
	int64_t D = tune_fact_int(c->facts, "dim"), N = tune_fact_int(c->facts, "out"), T = c->in[0].shape[0];
	int64_t K = backward ? N : D, M = backward ? D : N;
	if (!tune_has(&c->in[1], TUNE_NF4, 2, N, D) || !tune_has(&c->out[0], TUNE_FLOAT32, 2, T, M))
		return tune_say(c->why, TUNE_BAD_CALL, "a tensor has another form than the facts say");
	const float *x = c->in[0].data;
	float *y = c->out[0].data;
	for (int64_t t = 0; t < T; t++)
		for (int64_t m = 0; m < M; m++) {
			double sum = 0;
			for (int64_t k = 0; k < K; k++)
				sum += (double)x[t * K + k] * element(&c->in[1], backward ? k * D + m : m * D + k);
			y[t * M + m] = (float)sum;
		}
	return TUNE_OK;
}

static int forward(const tune_call *c) { return run(c, 0); }
static int backward(const tune_call *c) { return run(c, 1); }

int main(void) {
	const tune_kernel kernels[] = {{
		.op = "linear",
		.summary = "linear layers in NF4",
		.dtypes = "float32,nf4",
		.supports = supports,
		.forward = forward,
		.backward = backward,
		.by_threads = 1,
		.keeps = 1,
	}};
	return tune_serve("c_nf4", "1.0.0", kernels, 1);
}
