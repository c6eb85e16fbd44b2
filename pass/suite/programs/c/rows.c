/* Tiny loops in loops: a sparse matrix whose rows have 0 to 6 entries, polygons with 3 to 8 corners,
 * polynomials of degree 1 to 5, small histograms, strings of a few letters. */
#include "../suite.h"

enum { ROWS = 20000, ENTRIES = ROWS * 6, SHAPES = 4000 };
static uint32_t begin[ROWS + 1], column[ENTRIES];
static double value[ENTRIES], x[ROWS], y[ROWS];
static struct {
  int corners;
  double px[8], py[8];
} shapes[SHAPES];
static char names[SHAPES][12];

static void set_up(void) {
  for (uint32_t i = 0; i < ROWS; i++) {
    uint32_t n = (uint32_t)suite_below(7);
    begin[i + 1] = begin[i] + n;
    for (uint32_t k = begin[i]; k < begin[i + 1]; k++) {
      column[k] = (uint32_t)suite_below(ROWS);
      value[k] = suite_unit() - 0.5;
    }
    x[i] = suite_unit();
  }
  for (int s = 0; s < SHAPES; s++) {
    shapes[s].corners = 3 + (int)suite_below(6);
    for (int c = 0; c < shapes[s].corners; c++) {
      shapes[s].px[c] = suite_unit();
      shapes[s].py[c] = suite_unit();
    }
    int letters = (int)suite_below(11);
    for (int l = 0; l < letters; l++)
      names[s][l] = (char)('a' + suite_below(26));
  }
}

static void multiply(const double *from, double *to) {
  for (int i = 0; i < ROWS; i++) {
    double sum = 0.1;
    for (uint32_t k = begin[i]; k < begin[i + 1]; k++)
      sum += value[k] * from[column[k]];
    to[i] = sum;
  }
}

static double areas(void) {
  double total = 0.0;
  for (int s = 0; s < SHAPES; s++) {
    double area = 0.0;
    int n = shapes[s].corners;
    for (int c = 0, d = n - 1; c < n; d = c++)
      area += shapes[s].px[d] * shapes[s].py[c] - shapes[s].px[c] * shapes[s].py[d];
    total += fabs(area);
  }
  return total;
}

static double polynomials(double at) {
  double total = 0.0;
  for (int i = 0; i + 6 < ROWS; i++) {
    double p = x[i];
    for (int degree = 0; degree < 1 + i % 5; degree++)
      p = p * at + x[i + degree + 1];
    total += p;
  }
  return total;
}

static uint64_t letters(void) {
  uint64_t sum = 0;
  for (int s = 0; s < SHAPES; s++) {
    int count[8] = {0};
    for (const char *p = names[s]; *p != 0; p++)
      count[*p & 7]++;
    for (int c = 0; c < 8; c++)
      sum += (uint64_t)(count[c] * count[c]) << c;
  }
  return sum;
}

int main(int argc, char **argv) {
  uint64_t rounds = suite_rounds(argc, argv, 1800), sum = 0;
  set_up();
  for (uint64_t r = 0; r < rounds; r++) {
    multiply(x, y);
    multiply(y, x);
    sum = suite_mix_double(sum, x[r % ROWS]);
    sum = suite_mix_double(sum, areas());
    sum = suite_mix_double(sum, polynomials(0.5 + 1.0 / (double)(r + 3)));
    sum = suite_mix(sum, letters());
    names[r % SHAPES][0] ^= 1;
  }
  return suite_end(sum);
}
