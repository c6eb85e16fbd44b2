/* Hash tables: open addressing with linear probing and chaining with nodes from malloc; insertions,
 * look-ups (half of them in vain) and removals, sizes from 64 to 100,000. */
#include "../suite.h"

struct open {
  uint64_t *keys; /* 0: free, 1: was removed */
  uint32_t *values;
  size_t mask, used;
};

static size_t place(const struct open *t, uint64_t key) {
  return (key * 0x9E3779B97F4A7C15u >> 20) & t->mask;
}

static size_t find(const struct open *t, uint64_t key) {
  size_t at = place(t, key);
  while (t->keys[at] != key && t->keys[at] != 0)
    at = (at + 1) & t->mask;
  return at;
}

static struct open make(size_t capacity) {
  struct open t = {calloc(capacity, 8), calloc(capacity, 4), capacity - 1, 0};
  if (t.keys == NULL || t.values == NULL)
    exit(1);
  return t;
}

static void insert(struct open *t, uint64_t key, uint32_t value) {
  if (2 * (t->used + 1) > t->mask) {
    struct open bigger = make(2 * (t->mask + 1));
    for (size_t i = 0; i <= t->mask; i++)
      if (t->keys[i] > 1) {
        size_t at = find(&bigger, t->keys[i]);
        bigger.keys[at] = t->keys[i];
        bigger.values[at] = t->values[i];
        bigger.used++;
      }
    free(t->keys);
    free(t->values);
    *t = bigger;
  }
  size_t at = find(t, key);
  t->used += t->keys[at] == 0;
  t->keys[at] = key;
  t->values[at] = value;
}

static uint64_t open_addressing(size_t keys) {
  struct open t = make(16);
  uint64_t seed = suite_random() | 3, sum = 0;
  for (size_t i = 0; i < keys; i++)
    insert(&t, seed + i * i + 2, (uint32_t)i);
  for (size_t i = 0; i < 2 * keys; i++) {
    size_t at = find(&t, seed + i * i + 2);
    if (t.keys[at] != 0)
      sum += t.values[at];
    if (i % 7 == 0 && t.keys[at] != 0)
      t.keys[at] = 1;
  }
  sum = suite_mix(sum, t.used);
  free(t.keys);
  free(t.values);
  return sum;
}

struct node {
  struct node *next;
  uint64_t key, value;
};

static uint64_t chaining(size_t keys) {
  size_t buckets = keys / 2 + 1;
  struct node **heads = calloc(buckets, sizeof *heads);
  if (heads == NULL)
    exit(1);
  uint64_t seed = suite_random(), sum = 0;
  for (size_t i = 0; i < keys; i++) {
    struct node *n = suite_alloc(sizeof *n);
    n->key = seed + i * i;
    n->value = i;
    struct node **head = &heads[n->key * 0x9E3779B97F4A7C15u % buckets];
    n->next = *head;
    *head = n;
  }
  for (size_t i = 0; i < 2 * keys; i++) {
    uint64_t key = seed + i * i;
    for (struct node *n = heads[key * 0x9E3779B97F4A7C15u % buckets]; n != NULL; n = n->next)
      if (n->key == key) {
        sum = suite_mix(sum, n->value);
        break;
      }
  }
  for (size_t b = 0; b < buckets; b++)
    while (heads[b] != NULL) {
      struct node *next = heads[b]->next;
      free(heads[b]);
      heads[b] = next;
    }
  free(heads);
  return sum;
}

int main(int argc, char **argv) {
  static const size_t sizes[] = {64, 1000, 10000, 100000};
  uint64_t rounds = suite_rounds(argc, argv, 28), sum = 0;
  for (uint64_t r = 0; r < rounds; r++)
    for (unsigned s = 0; s < 4; s++)
      for (size_t repeat = 0; repeat < 100000 / sizes[s] && repeat < 400; repeat++) {
        sum = suite_mix(sum, open_addressing(sizes[s]));
        sum = suite_mix(sum, chaining(sizes[s]));
      }
  return suite_end(sum);
}
