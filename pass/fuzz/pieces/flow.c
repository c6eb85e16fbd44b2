//// loops
static @ATTR u64 loops_@N(u64 h, u32 a) {
  LOCALS;
  @BODY@BODY[return h ^ a;]
out:
  return FOLD;
}
static u64 unit_@N(u64 h) { return loops_@N(h, (u32)h >> 3); }
//// goto
static @ATTR u64 unit_@N(u64 h) {
  u32 a = (u32)h, fuel = @R(3,600);
  LOCALS;
  if (@E & 1) goto two;
one:
  if (!fuel--) goto out;
  { @SMALL }
  if (@E & 1) goto three;
two:
  if (!fuel--) goto out;
  { @SMALL }
  if (@E & 3) goto four;
three:
  if (!fuel--) goto out;
  { @SMALL }
  if ((@E & 7) == 1) goto one;
  if (@E & 1) goto two;
four:
  if (!fuel--) goto out;
  a = a * 5 + 1;
  if (@E & 1) goto two;
  if (@E & 1) goto three;
out:
  return FOLD;
}
//// into-loop
static @ATTR u64 unit_@N(u64 h) {
  u32 a = (u32)h, i = 0, j;
  LOCALS;
  if (a & 1) goto middle;
  for (i = 0; i < @R(1,90); i++) {
    a += @E;
middle:
    { @SMALL }
    for (j = i & 7; j < @R(2,20); j += 2)
      b ^= j * a;
  }
  switch ((u32)h & 3) {
    do {
  case 0: a = a * 3 + i; /* fall through */
  case 1: b += a; /* fall through */
  case 2: c ^= b; /* fall through */
  default: i++;
    } while (i < @R(90,900));
  }
out:
  return FOLD;
}
//// computed-goto
static @ATTR u64 unit_@N(u64 h) {
  static const void *const to[] = {&&add, &&mix, &&loop, &&step, &&out};
  u32 a = (u32)h, fuel = @R(5,400);
  LOCALS;
#define NEXT goto *to[fuel-- ? a & 3 : 4]
  NEXT;
add:
  a += @E;
  a += a >> 5;
  NEXT;
mix:
  { @SMALL }
  a = a * 2654435761u + b;
  a ^= a >> 15;
  NEXT;
loop:
  for (u32 k = 0; k < (a >> 4 & 15); k++)
    b = b * 7 + k;
  a = a * 9 + b + 1;
  a ^= a >> 11;
  NEXT;
step:
  c += a;
  a = a * 1664525u + c;
  a ^= a >> 13;
  NEXT;
out:
#undef NEXT
  return FOLD;
}
//// computed-goto-ways
static @ATTR u64 unit_@N(u64 h) {
  static const void *const to[] = {&&add, &&mix, &&turn, &&last, &&stop};
  u32 a = (u32)h, fuel = @R(5,400);
  LOCALS;
#define NEXT goto *to[fuel-- ? a % 3 : 3 + (b & 1)]
  if ((h & 7) == 3)
    goto stop;
  NEXT;
add:
  a += @E;
  a += a >> 5;
  if ((a & 255) == 9)
    goto out;
  NEXT;
mix:
  { @SMALL }
  a = a * 2654435761u + b;
  a ^= a >> 15;
  NEXT;
turn:
  c += a;
  if ((c & 127) == 77)
    goto stop;
  a = a * 1664525u + c;
  a ^= a >> 13;
  NEXT;
last:
  b ^= c * @E;
  goto out;
stop:
  c += a;
out:
#undef NEXT
  return FOLD;
}
//// asm-goto
static @ATTR u64 unit_@N(u64 h) {
  u32 a = (u32)h;
  LOCALS;
  for (u32 i = 0; i < @R(1,200); i++) {
    __asm__ goto("testl $4, %0\n\tjnz %l1" : : "r"(a) : "cc" : odd);
    a += @E;
    continue;
  odd:
    { @SMALL }
    a = a * 5 + 7;
  }
out:
  return FOLD;
}
//// recursion
static @ATTR u64 down_@N(u64 h, u32 a, u32 depth) {
  if (depth == 0) return h * 31 + a;
  LOCALS;
  if (a & 3) { @SMALL }
  h += down_@N(h ^ a, b, depth - 1);
  if (@E & 1) h ^= down_@N(h, c, depth - 1);
out:
  return h + FOLD;
}
static u64 unit_@N(u64 h) { return down_@N(h, (u32)h, @R(1,9)); }
//// mutual-recursion
static u64 even_@N(u64 h, u32 a, u32 n);
static @ATTR u64 third_@N(u64 h, u32 a, u32 n) {
  for (u32 i = 0; i < (n & 7); i++) a = a * 3 + i;
  return n ? even_@N(h + a, a, n - 1) * 3 : h;
}
static @ATTR u64 odd_@N(u64 h, u32 a, u32 n) {
  if (n == 0) return h ^ a;
  return n % 3 ? even_@N(h * 3 + a, a, n - 1) : third_@N(h, a ^ n, n - 1) + 1;
}
static NOINLINE u64 even_@N(u64 h, u32 a, u32 n) {
  if (n == 0) return h + a;
  LOCALS;
  if ((a & 7) == 3) { @SMALL }
out:
  return odd_@N(h ^ FOLD, a + 1, n - 1);
}
static u64 unit_@N(u64 h) { return even_@N(h, (u32)h, @R(0,300)) + odd_@N(h, 1, @R(0,40)); }
//// tail-recursion
static u64 b_@N(u64 h, u32 n);
static u64 a_@N(u64 h, u32 n) {
  u32 t = (u32)h;
  for (u32 i = 0; i < (t & @R(1,31)); i++) t = t * 5 + i;
  if (!n) return h + t;
  __attribute__((musttail)) return b_@N(h * 5 + t, n - 1);
}
static NOINLINE u64 b_@N(u64 h, u32 n) {
  if (!n) return h;
  __attribute__((musttail)) return a_@N(h ^ (h >> 9) ^ n, n - 1);
}
static u64 sum_@N(const struct node *n, u64 h) { return n ? sum_@N(n->next, h * 3 + n->value) : h; }
static u64 unit_@N(u64 h) { return a_@N(h, @R(0,900)) ^ sum_@N(nodes, h); }
//// pointers
typedef u64 (*fn_@N)(u64, u32);
static @ATTR u64 first_@N(u64 h, u32 a) { LOCALS; @SMALL out: return FOLD; }
static NOINLINE u64 second_@N(u64 h, u32 a) { return h * a + 1; }
static NOINLINE u64 third_@N(u64 h, u32 a) { while (a) { h += a & 1; a >>= 1; } return h; }
static fn_@N volatile now_@N = second_@N;
static u64 unit_@N(u64 h) {
  static const fn_@N all[] = {first_@N, second_@N, third_@N};
  for (u32 i = 0; i < @R(1,60); i++) {
    h = all[(h >> 5) % 3](h, i);
    h = now_@N(h, (u32)(h >> 7));
    now_@N = all[h % 3];
  }
  return h;
}
