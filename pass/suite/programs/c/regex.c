/* Regular expressions: Thompson's automaton, its sets of states filled by recursion over the empty moves,
 * and beside it a matcher that tries and goes back. Both are run over the same lines and agree. */
#include "../suite.h"

enum { MOST_STATES = 512, ANY = 256, SPLIT, MATCH };

struct state {
  int what; /* a character, or one of the above */
  struct state *next, *other;
  uint64_t seen; /* the last step whose set it is in */
};

static struct state states[MOST_STATES];
static size_t used;

static struct state *make(int what, struct state *next, struct state *other) {
  if (used == MOST_STATES)
    exit(1);
  states[used] = (struct state){what, next, other, 0};
  return &states[used++];
}

/* To the end of an alternative. */
static const char *skip(const char *p) {
  int depth = 0;
  for (; *p && !(depth == 0 && (*p == ')' || *p == '|')); p++)
    depth += (*p == '(') - (*p == ')');
  return p;
}

/* expression: term { '|' term }; term: { item [*+?] }; item: letter, '.', '(' expression ')'. Built from
 * the end: each part is told where to go on. */
static struct state *expression(const char *from, const char *to, struct state *then);

static struct state *term(const char *from, const char *to, struct state *then) {
  if (from == to)
    return then;
  const char *end = from + 1;
  if (*from == '(') {
    for (end = skip(from + 1); *end == '|';)
      end = skip(end + 1);
    end++;
  }
  const char sign = end < to && strchr("*+?", *end) ? *end : 0;
  struct state *after = term(end + (sign != 0), to, then);
  struct state *loop = sign == '*' || sign == '+' ? make(SPLIT, NULL, after) : NULL;
  struct state *go = loop ? loop : after;
  struct state *item = *from == '(' ? expression(from + 1, end - 1, go)
                                    : make(*from == '.' ? ANY : (unsigned char)*from, go, NULL);
  if (loop)
    loop->next = item;
  return sign == '*' ? loop : sign == '?' ? make(SPLIT, item, after) : item;
}

static struct state *expression(const char *from, const char *to, struct state *then) {
  const char *bar = skip(from);
  struct state *first = term(from, bar < to ? bar : to, then);
  return bar < to ? make(SPLIT, first, expression(bar + 1, to, then)) : first;
}

struct set {
  struct state *in[MOST_STATES];
  size_t count;
};

static void enter(struct set *set, struct state *state, uint64_t step) {
  if (state->seen == step)
    return;
  state->seen = step;
  if (state->what == SPLIT) {
    enter(set, state->next, step);
    enter(set, state->other, step);
    return;
  }
  set->in[set->count++] = state;
}

/* Where the first match from here ends, or NULL: the shortest. */
static const char *simulate(struct state *start, const char *text, uint64_t *step) {
  static struct set sets[2];
  struct set *now = &sets[0], *then = &sets[1];
  now->count = 0;
  enter(now, start, ++*step);
  for (;; text++) {
    for (size_t i = 0; i < now->count; i++)
      if (now->in[i]->what == MATCH)
        return text;
    if (*text == 0 || now->count == 0)
      return NULL;
    then->count = 0;
    ++*step;
    for (size_t i = 0; i < now->count; i++)
      if (now->in[i]->what == ANY || now->in[i]->what == (unsigned char)*text)
        enter(then, now->in[i]->next, *step);
    struct set *old = now;
    now = then;
    then = old;
  }
}

/* Whether the rest of the automaton matches from here: tries one way after the other. */
static int backtrack(const struct state *state, const char *text, const char *end) {
  for (;;) {
    switch (state->what) {
    case MATCH: return text == end;
    case SPLIT:
      if (backtrack(state->next, text, end))
        return 1;
      state = state->other;
      break;
    default:
      if (text == end || (state->what != ANY && state->what != (unsigned char)*text))
        return 0;
      state = state->next;
      text++;
    }
  }
}

int main(int argc, char **argv) {
  static const char *const patterns[] = {
      "a(b|c)*d",  "((a|b)|(c|d))*ee", "(.a|.b|d)+ce",   "(a|b)(c|d)e?",   "ab*(c|da)+e",
      "(a?b?c)+d", "((a|b)+c)+d.e",    "e(d(c(b)*)*)*a", "(abc|abd|ab)+e", ".a(.b|c.)*d"};
  enum { PATTERNS = sizeof patterns / sizeof *patterns, LENGTH = 60 };
  struct state *starts[PATTERNS];
  for (size_t i = 0; i < PATTERNS; i++)
    starts[i] = expression(patterns[i], patterns[i] + strlen(patterns[i]), make(MATCH, NULL, NULL));
  uint64_t sum = 0, step = 0;
  for (uint64_t rounds = suite_rounds(argc, argv, 55000); rounds > 0; rounds--) {
    char line[LENGTH + 1];
    for (int i = 0; i < LENGTH; i++)
      line[i] = (char)('a' + suite_below(5));
    line[LENGTH] = 0;
    for (size_t i = 0; i < PATTERNS; i++)
      for (const char *from = line; *from; from++) {
        const char *end = simulate(starts[i], from, &step);
        if (end && !backtrack(starts[i], from, end)) {
          fprintf(stderr, "%s: not at %s\n", patterns[i], from);
          return 1;
        }
        sum = suite_mix(sum, end ? (uint64_t)(end - from) : LENGTH + 1);
      }
  }
  return suite_end(sum);
}
