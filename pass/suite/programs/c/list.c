/* Linked lists: building, walking, reversing, merge sort, removal. Trip counts are unknown to the
 * compiler, iterations short, and long lists miss the caches. */
#include "../suite.h"

struct item {
  struct item *next;
  uint32_t key;
};

static struct item *build(struct item *pool, size_t n) {
  struct item *head = NULL;
  for (size_t i = 0; i < n; i++) {
    pool[i].key = (uint32_t)suite_random();
    pool[i].next = head;
    head = &pool[i];
  }
  return head;
}

static struct item *reverse(struct item *list) {
  struct item *done = NULL;
  while (list != NULL) {
    struct item *next = list->next;
    list->next = done;
    done = list;
    list = next;
  }
  return done;
}

static struct item *merge(struct item *a, struct item *b) {
  struct item head, *last = &head;
  while (a != NULL && b != NULL) {
    struct item **less = a->key <= b->key ? &a : &b;
    last->next = *less;
    last = *less;
    *less = last->next;
  }
  last->next = a != NULL ? a : b;
  return head.next;
}

static struct item *sort(struct item *list) {
  if (list == NULL || list->next == NULL)
    return list;
  struct item *slow = list, *fast = list->next;
  while (fast != NULL && fast->next != NULL) {
    slow = slow->next;
    fast = fast->next->next;
  }
  struct item *second = slow->next;
  slow->next = NULL;
  return merge(sort(list), sort(second));
}

static struct item *without(struct item *list, uint32_t residue) {
  struct item **at = &list;
  while (*at != NULL)
    if ((*at)->key % 5 == residue)
      *at = (*at)->next;
    else
      at = &(*at)->next;
  return list;
}

static uint64_t walk(const struct item *list) {
  uint64_t sum = 0;
  for (; list != NULL; list = list->next)
    sum += list->key;
  return sum;
}

int main(int argc, char **argv) {
  static const size_t sizes[] = {5, 60, 3000, 200000};
  uint64_t rounds = suite_rounds(argc, argv, 4), sum = 0;
  struct item *pool = suite_alloc(sizeof *pool * 200000);
  for (uint64_t r = 0; r < rounds; r++)
    for (unsigned s = 0; s < 4; s++)
      for (size_t repeat = 0; repeat < 600000 / sizes[s]; repeat++) {
        struct item *list = build(pool, sizes[s]);
        sum = suite_mix(sum, walk(list));
        list = reverse(sort(list));
        list = without(list, (uint32_t)repeat % 5);
        for (int w = 0; w < 8; w++)
          sum += walk(list) >> w;
        sum = suite_mix(sum, list ? list->key : 0);
      }
  free(pool);
  return suite_end(sum);
}
