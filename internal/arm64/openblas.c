// Times cblas_sgemm on squares of 512 and prints the milliseconds of each of so many runs.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { rowMajor = 101, plain = 111, n = 512 };
void cblas_sgemm(int order, int transA, int transB, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc);
char *openblas_get_corename(void);

int main(int argc, char **argv) {
	static float a[n * n], b[n * n], c[n * n];
	for (int i = 0; i < n * n; i++) {
		a[i] = (float)rand() / (float)RAND_MAX - 0.5f;
		b[i] = (float)rand() / (float)RAND_MAX - 0.5f;
	}
	fprintf(stderr, "%s\n", openblas_get_corename());
	for (int run = 0; run < atoi(argv[1]); run++) {
		struct timespec from, to;
		clock_gettime(CLOCK_MONOTONIC, &from);
		cblas_sgemm(rowMajor, plain, plain, n, n, n, 1, a, n, b, n, 0, c, n);
		clock_gettime(CLOCK_MONOTONIC, &to);
		printf("%.1f\n", (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6);
	}
	return c[0] == 12345;
}
