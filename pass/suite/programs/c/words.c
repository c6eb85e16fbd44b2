/* Words: a text is split and counted in a trie; its words are listed below prefixes, looked for with
 * wildcards and with one or two letters wrong; the lines are split and searched by the string functions.
 * Recursion over the children of nodes, most of which have few; calls through a pointer. */
#include "../suite.h"

enum { LETTERS = 26, LONGEST = 24, LINE = 160 };

struct node {
  struct node *child[LETTERS];
  uint32_t count;
};

static struct node *add(struct node *at, const char *word) {
  for (; *word; word++) {
    struct node **next = &at->child[*word - 'a'];
    if (*next == NULL && (*next = calloc(1, sizeof **next)) == NULL)
      exit(1);
    at = *next;
  }
  at->count++;
  return at;
}

static void drop(struct node *at) {
  for (int i = 0; i < LETTERS; i++)
    if (at->child[i])
      drop(at->child[i]);
  free(at);
}

typedef void visitor(const char *word, uint32_t count, void *to);

static void list(const struct node *at, char *word, size_t length, visitor *visit, void *to) {
  if (at->count != 0) {
    word[length] = 0;
    visit(word, at->count, to);
  }
  for (int i = 0; i < LETTERS; i++)
    if (at->child[i]) {
      word[length] = (char)('a' + i);
      list(at->child[i], word, length + 1, visit, to);
    }
}

static uint32_t below(const struct node *at, const char *prefix, visitor *visit, void *to) {
  char word[LONGEST + 1];
  size_t length = strlen(prefix);
  memcpy(word, prefix, length);
  for (const char *c = prefix; at && *c; c++)
    at = at->child[*c - 'a'];
  if (at)
    list(at, word, length, visit, to);
  return at != NULL;
}

/* `?` is any letter, `*` any number of them. */
static uint32_t glob(const struct node *at, const char *pattern) {
  if (*pattern == 0)
    return at->count;
  uint32_t found = *pattern == '*' ? glob(at, pattern + 1) : 0;
  for (int i = 0; i < LETTERS; i++) {
    if (at->child[i] == NULL)
      continue;
    if (*pattern == '*')
      found += glob(at->child[i], pattern);
    else if (*pattern == '?' || *pattern == 'a' + i)
      found += glob(at->child[i], pattern + 1);
  }
  return found;
}

/* Words that differ in at most so many letters. */
static uint32_t near(const struct node *at, const char *word, int wrong) {
  if (*word == 0)
    return at->count != 0;
  uint32_t found = 0;
  for (int i = 0; i < LETTERS; i++)
    if (at->child[i] && (*word == 'a' + i || wrong > 0))
      found += near(at->child[i], word + 1, wrong - (*word != 'a' + i));
  return found;
}

static void longest(const char *word, uint32_t count, void *to) {
  char *most = to;
  if (strlen(word) > strlen(most) || (count > 9 && strcmp(word, most) > 0))
    strcpy(most, word);
}

static void sum_up(const char *word, uint32_t count, void *to) {
  uint64_t *sum = to;
  for (; *word; word++)
    *sum = *sum * 31 + (uint64_t)*word;
  *sum += count;
}

static void invent(char *word) {
  static const char *const parts[] = {"an", "ber", "co",  "de", "el", "fi",  "gra", "ho",  "in",
                                      "ju", "ka",  "li",  "mo", "ne", "or",  "pre", "qui", "re",
                                      "st", "ti",  "und", "ve", "wa", "xen", "yl",  "zo"};
  uint64_t count = 1 + suite_below(4);
  word[0] = 0;
  while (count-- > 0)
    strcat(word, parts[suite_below(sizeof parts / sizeof *parts)]);
}

/* Lines of a text: words, spaces, punctuation. */
static void write_line(char *line) {
  size_t at = 0;
  while (at < LINE - 2 * LONGEST) {
    invent(line + at);
    at += strlen(line + at);
    line[at++] = suite_below(6) == 0 ? ',' : ' ';
  }
  strcpy(line + at, "end.");
}

static uint64_t read_line(struct node *root, const char *line) {
  uint64_t words = 0;
  for (const char *c = line; *c;) {
    size_t length = strcspn(c, " ,.");
    char word[LONGEST + 1];
    if (length != 0 && length <= LONGEST) {
      memcpy(word, c, length);
      word[length] = 0;
      words += add(root, word)->count;
    }
    c += length;
    c += strspn(c, " ,.");
  }
  const char *comma = strchr(line, ',');
  return words + (comma ? (uint64_t)(comma - line) : 0) + (strstr(line, "mo qui") != NULL);
}

int main(int argc, char **argv) {
  static const char *const patterns[] = {"*ber?", "?o*ti", "*an*li", "re*yl", "??ka*", "*q*u*i*"};
  uint64_t sum = 0;
  for (uint64_t rounds = suite_rounds(argc, argv, 180); rounds > 0; rounds--) {
    struct node *root = calloc(1, sizeof *root);
    if (root == NULL)
      exit(1);
    char line[LINE], word[LONGEST + 1];
    for (int i = 0; i < 500; i++) {
      write_line(line);
      sum = suite_mix(sum, read_line(root, line));
    }
    for (int i = 0; i < 200; i++) {
      char most[LONGEST + 1] = "";
      uint64_t all = 0;
      invent(word);
      word[2 + i % 2] = 0;
      uint32_t there =
          below(root, word, i % 3 == 0 ? longest : sum_up, i % 3 == 0 ? (void *)most : &all);
      sum = suite_mix(sum, there + all + strlen(most));
    }
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
      sum = suite_mix(sum, glob(root, patterns[i]));
    for (int i = 0; i < 40; i++) {
      invent(word);
      sum = suite_mix(sum, near(root, word, 1 + i % 2));
    }
    drop(root);
  }
  return suite_end(sum);
}
