//// setjmp
static jmp_buf jump_@N;
static @ATTR u64 inner_@N(u64 h, u32 a, u32 depth) {
  LOCALS;
  if (depth) h ^= inner_@N(h + 1, a * 3, depth - 1);
  @BODY[longjmp(jump_#, (int)(a & 7) + 1);]
out:
  return FOLD;
}
static NOINLINE u64 unit_@N(u64 h) {
  volatile u32 tries = 0;
  volatile u64 state = h;
  int how = setjmp(jump_@N);
  tries = tries + 1;
  state = state * 7 + (u64)how;
  if (tries < @R(2,20)) {
    for (volatile u32 i = 0; i < 3; i = i + 1)
      state = state ^ inner_@N(state, tries, i);
    if (state & 1) longjmp(jump_@N, 9);
  }
  return state + tries;
}
//// vla
static @ATTR u64 unit_@N(u64 h) {
  u32 a = (u32)h;
  LOCALS;
  for (u32 i = 1; i < @R(2,60); i++) {
    u32 v[i + 1];
    for (u32 j = 0; j <= i; j++) v[j] = a * j + b;
    u8 *p = (u8 *)__builtin_alloca(1 + (a & 63));
    p[a & 63] = (u8)i;
    { @SMALL }
    a += v[i / 2] + v[a % (i + 1)];
    __asm__ volatile("" : : "r"(p), "r"(v) : "memory");
  }
out:
  return FOLD;
}
//// aligned
static NOINLINE u64 unit_@N(u64 h) {
  u32 a = (u32)h;
  LOCALS;
  u64 big[8] __attribute__((aligned(64)));
  u8 *p = (u8 *)__builtin_alloca(16 + (a & 255));
  memset(p, 5, 16);
  for (u32 i = 0; i < 8; i++) big[i] = h * i;
  @BODY
out:
  __asm__ volatile("" : : "r"(p), "r"(big) : "memory");
  return FOLD + big[a & 7] + p[3] + ((u64)(uintptr_t)big & 63);
}
//// long-double
static @ATTR u64 unit_@N(u64 h) {
  u32 a = (u32)h;
  LOCALS;
  long double x = 1.0L, y = a & 255, z[4] = {1, 2, 3, 4};
  for (u32 i = 0; i < @R(1,500); i++) {
    x = x * 0.5L + y;
    y = y / 3.0L + z[i & 3] * 0.125L + (long double)(@E & 255);
    z[(i + 1) & 3] = x > y ? x : y - 1.0L;
    if ((i & 31) == 7) { @SMALL }
  }
out:
  h += (u64)(i64)(x * 4096.0L) + (u64)(i64)(y * 4096.0L);
  return FOLD;
}
//// vectors
typedef u32 v8_@N __attribute__((vector_size(32)));
typedef float f4_@N __attribute__((vector_size(16)));
typedef u8 b64_@N __attribute__((vector_size(64)));
static @ATTR u64 unit_@N(u64 h) {
  u32 a = (u32)h;
  LOCALS;
  v8_@N x = {1, 2, 3, 4, 5, 6, 7, a}, y = x * 77u;
  f4_@N f = {1, 2, 3, 4};
  b64_@N z = {1, 2, 3};
  for (u32 i = 0; i < @R(1,800); i++) {
    x = (x << 1) ^ y;
    y += x & (u32)(@E);
    f = f * 0.5f + (float)(i & 7);
    z += (u8)i;
    z ^= z >> 1;
    if ((i & 63) == 9) { @SMALL }
    x[i & 7] += a;
  }
out:
  for (u32 i = 0; i < 8; i++) h = h * 31 + x[i] + y[i] + z[i * 3];
  return FOLD + (u64)(f[0] * 64) + (u64)(f[3] * 64);
}
//// thread-local
static TLS u32 mine_@N[32];
static TLS u32 *where_@N;
extern TLS u32 local_array[16];
static @ATTR u32 bump_@N(u32 x) { mine_@N[x & 31] += x; return mine_@N[(x >> 5) & 31]; }
static @ATTR u64 unit_@N(u64 h) {
  u32 a = (u32)h;
  LOCALS;
  where_@N = local_array;
  for (u32 i = 0; i < @R(1,200); i++) {
    u32 *p = &mine_@N[a & 15];
    for (u32 j = 0; j < 16; j++) p[j] += i * j;
    a += bump_@N(a + i) + *where_@N;
    where_@N = &local_array[a & 15];
    *where_@N += i;
    if ((i & 15) == 3) { @SMALL }
    local_counter += p[3];
  }
out:
  for (u32 i = 0; i < 32; i++) h = h * 31 + mine_@N[i] + local_array[i & 15];
  return FOLD;
}
//// varargs
static @ATTR u64 sum_@N(u32 n, ...) {
  va_list all;
  va_start(all, n);
  u64 h = n;
  for (u32 i = 0; i < n; i++) h = h * 7 + (i & 1 ? va_arg(all, u64) : (u64)va_arg(all, double));
  va_end(all);
  return h;
}
static u64 unit_@N(u64 h) {
  for (u32 i = 0; i < @R(1,100); i++)
    h ^= sum_@N(h & 7, 1.5, h, 2.5, h >> 9, 3.0, h * 3, 4.0, h + 1) + i;
  return h;
}
//// sort
static int order_@N(const void *x, const void *y) {
  u32 a = *(const u32 *)x, b = *(const u32 *)y;
  for (u32 i = 0; i < (a & 3); i++) local_counter += a;
  return a < b ? -1 : a > b;
}
static u64 unit_@N(u64 h) {
  u32 a = (u32)h;
  LOCALS;
  qsort(A, 64, sizeof *A, order_@N);
  @BODY
  qsort(B, hide(@R(0,64)), sizeof *B, order_@N);
out:
  return FOLD;
}
//// rounding
static NOINLINE u64 round_@N(u64 h, int mode) {
#pragma STDC FENV_ACCESS ON
  double x = 1.0;
  float y = 3.0f;
  fesetround(mode);
  for (u32 i = 0; i < @R(1,300); i++) {
    x = x / 3.0 + (double)(h & 1023);
    y = y * 0.1f + (float)x;
    h = h * 5 + bits_of(x) + (u64)(i64)y;
  }
  fesetround(FE_TONEAREST);
  return h;
}
static u64 unit_@N(u64 h) {
  static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  for (u32 i = 0; i < 4; i++) h ^= round_@N(h, modes[i]);
  return h;
}
//// signal
static volatile u64 heard_@N;
static void hear_@N(int number) {
  for (int i = 0; i < number; i++) heard_@N = heard_@N * 3 + (u64)i;
}
static u64 unit_@N(u64 h) {
  u32 a = (u32)h;
  LOCALS;
  signal(SIGUSR1, hear_@N);
  for (u32 i = 0; i < @R(1,20); i++) {
    { @SMALL }
    raise(SIGUSR1);
  }
out:
  return FOLD ^ heard_@N;
}
//// thread
static void *work_@N(void *pointer) {
  u64 h = *(u64 *)pointer;
  u32 a = (u32)h;
  LOCALS;
  @BODY
out:
  *(u64 *)pointer = FOLD;
  return pointer;
}
static u64 unit_@N(u64 h) {
  pthread_t thread;
  u64 x = h, y = h + 1;
  if (pthread_create(&thread, 0, work_@N, &x) != 0) abort();
  work_@N(&y);
  pthread_join(thread, 0);
  return x ^ y;
}
//// conventions
static NOINLINE __attribute__((regcall)) u64 reg_@N(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g,
                                                    u64 h, double x) {
  for (u64 i = 0; i < (a & 15); i++) h = h * 3 + b + (u64)x;
  return a + b * c + d * e + f * g + h;
}
static NOINLINE __attribute__((preserve_most)) u64 most_@N(u64 a) {
  u64 r = 1;
  while (a) { r = r * 5 + (a & 7); a >>= 2; }
  return r;
}
static NOINLINE __attribute__((ms_abi)) u64 ms_@N(u64 a, double b, u32 c) {
  while (c & 31) { a = a * 3 + c; c++; b *= 0.5; }
  return a + (u64)b;
}
static u64 unit_@N(u64 h) {
  double x = 1.5;
  for (u32 i = 0; i < @R(1,200); i++) {
    h += reg_@N(h, i, h >> 3, i * 3, h, 7, h >> 9, i, (double)(h & 7));
    h ^= most_@N(h) + ms_@N(h, x, i);
    x = x * 0.5 + i;
  }
  return h + bits_of(x);
}
//// structs
struct big_@N { u64 x[9]; u8 y; };
struct bits_@N { u32 p : 3; i32 q : 9; u64 r : 40; u32 t : 1; };
static @ATTR struct big_@N turn_@N(struct big_@N in, u32 k) {
  struct big_@N out = in;
  for (u32 i = 0; i < 9; i++) out.x[i] = in.x[(i + k) % 9] * 3 + i;
  out.y += (u8)k;
  return out;
}
static u64 unit_@N(u64 h) {
  u32 a = (u32)h;
  LOCALS;
  struct big_@N x = {{h, 2, 3, 4, 5, 6, 7, 8, 9}, 1};
  struct bits_@N y = {1, 2, 3, 0};
  unsigned __int128 wide = h;
  for (u32 i = 0; i < @R(1,120); i++) {
    x = turn_@N(x, a);
    y.p += a & 7; y.q = (i32)(i & 255) - 128; y.r += x.x[i % 9]; y.t ^= i & 1;
    wide = wide * 0x9e3779b97f4a7c15ull + y.r;
    h = h * 31 + y.p + (u64)(i64)y.q + y.r + y.t;
    memmove(T + (a & 31), T + (b & 63), h & 63);
    if ((i & 15) == 2) { @SMALL }
  }
out:
  return FOLD ^ x.x[3] ^ x.y ^ (u64)(wide >> 50);
}
//// red-zone
static NOINLINE u64 leaf_@N(u64 h, u32 n) {
  u64 buffer[12];
  for (u32 i = 0; i < 12; i++) buffer[i] = h + i;
  for (u32 i = 0; i < n; i++) {
    buffer[i % 12] = buffer[(i * 5) % 12] * 3 + i;
    __asm__ volatile("" : : "r"(buffer) : "memory");
  }
  return buffer[0] ^ buffer[n % 12];
}
static u64 unit_@N(u64 h) {
  for (u32 i = 0; i < @R(1,90); i++) h = leaf_@N(h, i + (h & 15));
  return h;
}
//// atomics
static u64 shared_@N;
static @ATTR u64 unit_@N(u64 h) {
  u32 a = (u32)h;
  LOCALS;
  for (u32 i = 0; i < @R(1,300); i++) {
    __atomic_fetch_add(&shared_@N, a, __ATOMIC_SEQ_CST);
    u64 seen = __atomic_load_n(&shared_@N, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(&shared_@N, &seen, seen * 3 + i, true, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
    }
    if ((i & 31) == 1) { @SMALL }
    a += (u32)(seen >> 5);
  }
out:
  return FOLD ^ shared_@N;
}
