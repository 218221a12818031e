/* The plugin of the transport's tests in C: rms_norm like the reference, to the bit,
 * with behaviours that a call's site asks for. It is what plugins_test.go is in Go. */
#define _GNU_SOURCE
#include "tune_plugin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* times counts a call of a behaviour, in a file, and returns how many there have been. */
static long times(const char *what) {
	const char *dir = getenv("TUNE_TEST_DIR");
	if (!dir)
		return 0;
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", dir, what);
	FILE *f = fopen(path, "a");
	struct stat info;
	if (!f || fputc('x', f) == EOF || fflush(f) != 0 || fstat(fileno(f), &info) != 0) {
		perror(path);
		exit(1);
	}
	fclose(f);
	return (long)info.st_size;
}

/* start_child starts a process that has this one's output open and lives for long, in
 * this one's process group or not. Its number is left in a file. */
static void start_child(int daemon) {
	pid_t pid = fork();
	if (pid == 0) {
		if (daemon)
			setsid();
		execlp("sleep", "sleep", "3600", NULL);
		_exit(1);
	}
	while (daemon && pid > 0 && getpgid(pid) != pid) /* until it has left the group */
		usleep(100);
	char path[4096];
	snprintf(path, sizeof path, "%s/pid", getenv("TUNE_TEST_DIR"));
	FILE *f = fopen(path, "w");
	if (pid < 0 || !f || fprintf(f, "%d", (int)pid) < 0) {
		perror(path);
		exit(1);
	}
	fclose(f);
}

/* flood prints 8 MiB to each output without an end of line. */
static void flood(void) {
	static const char line[1 << 10] = "all work and no play";
	for (int n = 0; n < 8 << 10; n++)
		if (write(STDOUT_FILENO, line, sizeof line) < 0 || write(STDERR_FILENO, line, sizeof line) < 0)
			exit(1);
}

/* fill_memory takes memory until there is none, which a limit sees to soon. */
static void fill_memory(void) {
	setrlimit(RLIMIT_DATA, &(struct rlimit){64 << 20, 64 << 20});
	for (;;) {
		char *p = malloc(1 << 20);
		if (!p)
			abort();
		memset(p, 1, 1 << 20);
	}
}

static int is(const tune_call *c, const char *site) { return strcmp(c->site, site) == 0; }

static int behave(const tune_call *c) {
	for (int i = 0; i < c->outputs; i++) {
		size_t n = 4;
		for (int k = 0; k < c->out[i].rank; k++)
			n *= (size_t)c->out[i].shape[k];
		memset(c->out[i].data, 0xA5, n); /* a repeated call must not depend on what a dead one left */
	}
	if (is(c, "die once") && times(c->site) == 1)
		exit(7);
	if (is(c, "die")) {
		times(c->site);
		exit(7);
	}
	if ((is(c, "hang once") && times(c->site) == 1) || (is(c, "hang") && times(c->site) >= 0))
		for (;;)
			pause();
	if ((is(c, "spin") && times(c->site)) || (is(c, "spin once") && times(c->site) == 1))
		for (;;)
			;
	if (is(c, "flood"))
		flood();
	if (is(c, "fill memory once") && times(c->site) == 1)
		fill_memory();
	if ((is(c, "leave a child") || is(c, "leave a daemon")) && times(c->site) == 1) {
		start_child(is(c, "leave a daemon"));
		exit(7);
	}
	if (is(c, "have a child"))
		start_child(0);
	if (is(c, "slow")) {
		times(c->site);
		nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
	}
	if (is(c, "until told")) {
		char path[4096];
		snprintf(path, sizeof path, "%s/told", getenv("TUNE_TEST_DIR"));
		for (times(c->site); access(path, F_OK) != 0;)
			usleep(1000);
	}
	if (is(c, "write input"))
		((char *)c->in[0].data)[0]++;
	if (is(c, "error"))
		return tune_say(c->why, TUNE_FAILED, "the device is on fire");
	if (is(c, "print"))
		fprintf(stderr, "a word from the kernel\n");
	if (is(c, "print to standard output")) {
		printf("a word from the kernel\n");
		fflush(stdout);
	}
	if (is(c, "not supported"))
		return tune_say(c->why, TUNE_NOT_SUPPORTED, "only even days");
	return TUNE_OK;
}

static double rstd(const tune_facts *f, const float *x, int64_t D) {
	double sum = 0;
	for (int64_t i = 0; i < D; i++)
		sum += (double)x[i] * x[i];
	return 1 / sqrt(sum / (double)D + strtod(tune_fact(f, "eps"), NULL));
}

static int forward(const tune_call *c) {
	if (is(c, "nothing"))
		return TUNE_OK;
	int status = behave(c);
	if (status != TUNE_OK)
		return status;
	int64_t T = c->in[0].shape[0], D = c->in[0].shape[1];
	const float *x = c->in[0].data, *weight = c->in[1].data;
	float *y = c->out[0].data, *saved = c->out[1].data;
	for (int64_t t = 0; t < T; t++) {
		double r = rstd(c->facts, x + t * D, D);
		saved[t] = (float)r;
		for (int64_t i = 0; i < D; i++)
			y[t * D + i] = (float)((double)(float)(x[t * D + i] * r) * weight[i]);
	}
	return TUNE_OK;
}

static int backward(const tune_call *c) {
	int status = behave(c);
	if (status != TUNE_OK)
		return status;
	int64_t T = c->in[1].shape[0], D = c->in[1].shape[1];
	const float *dy = c->in[0].data, *x = c->in[1].data, *weight = c->in[2].data;
	float *dx = c->out[0].data, *dweight = c->out[1].data;
	double *sum = calloc((size_t)D, sizeof *sum);
	for (int64_t t = 0; t < T; t++, x += D, dy += D, dx += D) {
		double r = rstd(c->facts, x, D), mean = 0;
		for (int64_t i = 0; i < D; i++) {
			sum[i] += dy[i] * (double)(float)(x[i] * r);
			mean += dy[i] * (double)weight[i] * (x[i] * r) / (double)D;
		}
		for (int64_t i = 0; i < D; i++)
			dx[i] = (float)(r * (dy[i] * (double)weight[i] - x[i] * r * mean));
	}
	for (int64_t i = 0; i < D; i++)
		dweight[i] = (float)sum[i];
	free(sum);
	return TUNE_OK;
}

static int supports(const tune_facts *f, char *why) {
	const char *unknown = tune_only(f, "dtype weight_dtype dim eps cast");
	if (unknown)
		return tune_say(why, TUNE_NOT_SUPPORTED, "the fact %s is not known", unknown);
	if (tune_fact_int(f, "dim") == 13)
		return tune_say(why, TUNE_NOT_SUPPORTED, "dim 13 brings bad luck");
	if (strcmp(tune_fact(f, "dtype"), "float32") != 0 || strcmp(tune_fact(f, "weight_dtype"), "float32") != 0)
		return tune_say(why, TUNE_NOT_SUPPORTED, "only float32");
	return TUNE_OK;
}

int main(void) {
	const tune_kernel kernels[] = {{
		.op = "rms_norm",
		.summary = "the plain norm",
		.dtypes = "float32",
		.supports = supports,
		.forward = forward,
		.backward = backward,
	}};
	return tune_serve("test_kernels", "1.2.3", kernels, 1);
}
