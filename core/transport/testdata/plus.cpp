// A kernel in C++ on tune_plugin.c: y = silu(gate) * up, forward alone.
#include "tune_products.h"

#include <cmath>

static int supports(const tune_facts *facts, char *why) {
	if (tune_only(facts, "dtype intermediate activation layout") || tune_dtype(tune_fact(facts, "dtype")) != TUNE_FLOAT32 ||
	    tune_fact(facts, "layout")[0] != 's')
		return tune_say(why, TUNE_NOT_SUPPORTED, "float32, gate and up separate");
	return TUNE_OK;
}

static int forward(const tune_call *call) {
	auto gate = static_cast<const float *>(call->in[0].data), up = static_cast<const float *>(call->in[1].data);
	auto y = static_cast<float *>(call->out[0].data);
	for (int64_t i = 0; i < call->out[0].shape[0] * call->out[0].shape[1]; i++)
		y[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
	return TUNE_OK;
}

int main() {
	const tune_kernel kernel = {"swiglu", "SwiGLU in C++", "float32", supports, forward, nullptr, 0, 0};
	return tune_serve("plus", "1.0.0", &kernel, 1);
}
