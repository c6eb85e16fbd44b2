/* Dynamic programming: edit distance (a chain of minima), longest common subsequence, knapsack (rows
 * that vectorise), matrix-chain order (triangular loops), coin change. */
#include "../suite.h"

enum { N = 700, CAPACITY = 6000, CHAIN = 160 };
static unsigned char a[N], b[N];
static int32_t row[N + 1], other[N + 1], best[CAPACITY + 1];
static int64_t cost[CHAIN][CHAIN];

static int min(int x, int y) { return x < y ? x : y; }

static int distance(void) {
  for (int j = 0; j <= N; j++)
    row[j] = j;
  for (int i = 1; i <= N; i++) {
    int diagonal = row[0];
    row[0] = i;
    for (int j = 1; j <= N; j++) {
      int above = row[j];
      row[j] = min(min(row[j - 1], above) + 1, diagonal + (a[i - 1] != b[j - 1]));
      diagonal = above;
    }
  }
  return row[N];
}

static int subsequence(void) {
  memset(row, 0, sizeof row);
  for (int i = 1; i <= N; i++) {
    memcpy(other, row, sizeof row);
    for (int j = 1; j <= N; j++)
      row[j] = a[i - 1] == b[j - 1]    ? other[j - 1] + 1
               : other[j] > row[j - 1] ? other[j]
                                       : row[j - 1];
  }
  return row[N];
}

static int knapsack(void) {
  memset(best, 0, sizeof best);
  for (int i = 0; i < 120; i++) {
    int weight = 20 + a[i] * 3, value = b[i];
    for (int c = CAPACITY; c >= weight; c--) {
      int with = best[c - weight] + value;
      best[c] = with > best[c] ? with : best[c];
    }
  }
  return best[CAPACITY];
}

static int64_t chain(void) {
  for (int length = 1; length < CHAIN; length++)
    for (int i = 0; i + length < CHAIN - 1; i++) {
      int j = i + length;
      int64_t least = INT64_MAX;
      for (int k = i; k < j; k++) {
        int64_t c =
            cost[i][k] + cost[k + 1][j] + (int64_t)(a[i] + 1) * (a[k + 1] + 1) * (a[j + 1] + 1);
        least = c < least ? c : least;
      }
      cost[i][j] = least;
    }
  return cost[0][CHAIN - 2];
}

static int64_t coins(void) {
  static const int values[] = {1, 2, 5, 10, 20, 50, 100, 200};
  static int64_t ways[CAPACITY + 1];
  memset(ways, 0, sizeof ways);
  ways[0] = 1;
  for (unsigned v = 0; v < sizeof values / sizeof *values; v++)
    for (int c = values[v]; c <= CAPACITY; c++)
      ways[c] = (ways[c] + ways[c - values[v]]) % 1000000007;
  return ways[CAPACITY];
}

int main(int argc, char **argv) {
  uint64_t rounds = suite_rounds(argc, argv, 450), sum = 0;
  for (uint64_t r = 0; r < rounds; r++) {
    for (int i = 0; i < N; i++) {
      a[i] = (unsigned char)suite_below(20);
      b[i] = suite_below(4) == 0 ? (unsigned char)suite_below(20) : a[i];
    }
    sum = suite_mix(sum, (uint64_t)distance());
    sum = suite_mix(sum, (uint64_t)subsequence());
    sum = suite_mix(sum, (uint64_t)knapsack());
    sum = suite_mix(sum, (uint64_t)chain());
    sum = suite_mix(sum, (uint64_t)coins());
  }
  return suite_end(sum);
}
