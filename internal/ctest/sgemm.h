// The sgemm of a BLAS, for the libraries that tests build in place of a real one. Sums are kept in registers, for a
// block of ROWS by COLUMNS at a time, as tests would wait for one that adds up each element by itself. A block at an
// edge is a whole one: the bits of an element depend on its own row and column, whatever else is multiplied.
#include <stddef.h>
#include <stdlib.h>

// The C library chooses, when it loads what was built, what the processor can do. All add up in the same order.
#if defined __x86_64__ && defined __GLIBC__ && !defined __clang__
#define CLONES __attribute__((target_clones("avx2", "default")))
#else
#define CLONES
#endif

enum { LANES = 8, ROWS = 2 * LANES, COLUMNS = 4 };

typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));

// What is multiplied: op(a) [m,k] by op(b) [k,n]. Matrices lie by columns; op transposes those that are said to be.
typedef struct {
  int transa, transb;
  ptrdiff_t m, n, k, lda, ldb, ldc;
  const float *a, *b;
  float *c, alpha, beta;
} product;

// pack lays count rows of a matrix side by side, ROWS of them: column by column, with zeros for those that are not
// there.
static void pack(float *to, ptrdiff_t count, const float *from, ptrdiff_t row, ptrdiff_t column, ptrdiff_t k) {
  int whole = count >= ROWS;
  for (ptrdiff_t p = 0; p < k; p++, from += column, to += ROWS)
    if (whole)
      for (int i = 0; i < ROWS; i++) to[i] = from[i * row];
    else
      for (int i = 0; i < ROWS; i++) to[i] = i < count ? from[i * row] : 0;
}

// sum adds to a block what k columns of packed rows give with as many elements of columns, which lie step apart.
CLONES static void sum(float to[COLUMNS][ROWS], const float *rows, const float *const columns[COLUMNS], ptrdiff_t step,
                       ptrdiff_t k) {
  lanes s[COLUMNS][2] = {{{0}}};
  for (ptrdiff_t p = 0; p < k; p++, rows += ROWS) {
    const lanes *r = (const lanes *)rows;
#pragma GCC unroll 4
    for (int j = 0; j < COLUMNS; j++) {
      s[j][0] += r[0] * columns[j][p * step];
      s[j][1] += r[1] * columns[j][p * step];
    }
  }
  for (int j = 0; j < COLUMNS; j++)
    for (int i = 0; i < ROWS; i++) to[j][i] += s[j][i / LANES][i % LANES];
}

// multiply makes c = alpha * op(a) op(b) + beta * c. What is before cut and what is after it are added up apart.
static void multiply(const product *q, ptrdiff_t cut) {
  ptrdiff_t row = q->transa ? q->lda : 1, column = q->transa ? 1 : q->lda;
  ptrdiff_t below = q->transb ? q->ldb : 1, beside = q->transb ? 1 : q->ldb;
  float *rows = malloc(sizeof *rows * (q->k * ROWS + 1));
  for (ptrdiff_t i = 0; i < q->m; i += ROWS) {
    pack(rows, q->m - i, q->a + i * row, row, column, q->k);
    for (ptrdiff_t j = 0; j < q->n; j += COLUMNS) {
      const float *first[COLUMNS], *second[COLUMNS];
      for (ptrdiff_t y = 0; y < COLUMNS; y++) { // beside the edge, the last one again
        first[y] = q->b + (j + y < q->n ? j + y : q->n - 1) * beside;
        second[y] = first[y] + cut * below;
      }
      float block[COLUMNS][ROWS] = {{0}};
      sum(block, rows, first, below, cut);
      if (cut < q->k) sum(block, rows + cut * ROWS, second, below, q->k - cut);
      for (ptrdiff_t y = 0; y < COLUMNS && j + y < q->n; y++)
        for (ptrdiff_t x = 0; x < ROWS && i + x < q->m; x++) {
          float *at = q->c + i + x + (j + y) * q->ldc;
          *at = q->alpha * block[y][x] + (q->beta == 0 ? 0 : q->beta * *at);
        }
    }
  }
  free(rows);
}
