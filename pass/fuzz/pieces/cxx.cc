//// throw
struct oops_@N { u64 what; };
static @ATTR u64 thrower_@N(u64 h, u32 a, u32 depth) {
  LOCALS;
  if (depth) h ^= thrower_@N(h + 1, a * 3, depth - 1);
  @BODY[throw oops_#{h ^ a};]
out:
  return FOLD;
}
static u64 unit_@N(u64 h) {
  for (u32 i = 0; i < @R(1,25); i++) {
    try {
      h += thrower_@N(h, i, i & 3);
      if (h & 1) throw i;
    } catch (const oops_@N &o) {
      h = h * 3 + o.what;
    } catch (u32 x) {
      h ^= x;
      continue;
    }
  }
  return h;
}
//// destructors
struct guard_@N {
  u64 &h; u32 k;
  guard_@N(u64 &h, u32 k) : h(h), k(k) { h += k; }
  ~guard_@N() { for (u32 i = 0; i < (k & 7); i++) h = h * 3 + i; }
};
static @ATTR u32 deep_@N(u64 &h, u32 n) {
  guard_@N g(h, n);
  while (n > 1) {
    guard_@N inner(h, n);
    if ((h & 31) == 3) throw n;
    n = n & 1 ? n * 3 + 1 : n / 2;
    if (n == @R(2,50)) return 7;
  }
  return n;
}
static u64 unit_@N(u64 h) {
  for (u32 i = 1; i < @R(2,60); i++) {
    guard_@N g(h, i);
    try {
      try { h += deep_@N(h, i); }
      catch (u32 n) { h ^= n; if (n & 1) throw; }
    } catch (...) { h = h * 7 + i; }
  }
  return h;
}
//// containers
static u64 unit_@N(u64 h) {
  u32 a = (u32)h;
  LOCALS;
  std::vector<u32> v(A, A + 64);
  std::map<u32, std::string> m;
  for (u32 i = 0; i < @R(1,64); i++) {
    v.insert(v.begin() + (a % v.size()), b ^ i);
    m[v[i] % 37] += std::to_string(v[i]);
    a = a * 5 + i;
  }
  std::sort(v.begin(), v.end(), [&](u32 x, u32 y) { return (x ^ a) < (y ^ a); });
  for (auto &[k, text] : m) for (char ch : text) h = h * 31 + (u64)ch + k;
  h = std::accumulate(v.begin(), v.end(), h, [](u64 x, u32 y) { return x * 7 + y; });
  try { h += v.at(hide(@R(40,200))); } catch (const std::out_of_range &) { h ^= 5; }
out:
  return FOLD;
}
//// virtual
struct base_@N { virtual u64 go(u64 h, u32 a) { return h + a; } virtual ~base_@N() {} };
struct one_@N : base_@N {
  u64 go(u64 h, u32 a) override { LOCALS; @SMALL out: return FOLD; }
};
struct two_@N : base_@N {
  u64 go(u64 h, u32 a) override { for (; a; a &= a - 1) h = h * 3 + a; return h; }
};
static u64 unit_@N(u64 h) {
  std::unique_ptr<base_@N> all[3] = {std::make_unique<base_@N>(), std::make_unique<one_@N>(),
                                     std::make_unique<two_@N>()};
  std::function<u64(u64)> f = [&](u64 x) { return all[x % 3]->go(x, (u32)(x >> 7)); };
  for (u32 i = 0; i < @R(1,80); i++) h = f(h + i);
  return h;
}
//// statics
template <int K> static u64 &kept_@N(u64 h) {
  static u64 value = [&] {
    u64 x = h;
    for (u32 i = 0; i < (u32)K; i++) x = x * 3 + i;
    if ((x & 3) == 1) throw K;
    return x;
  }();
  return value;
}
static u64 unit_@N(u64 h) {
  for (u32 i = 0; i < 8; i++) {
    try { kept_@N<@R(1,40)>(h + i) += i; h += kept_@N<@R(41,90)>(h); }
    catch (int k) { h = h * 5 + (u64)k; }
  }
  return h;
}
//// coroutine
struct made_@N {
  struct promise_type {
    u64 now;
    made_@N get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(u64 x) { now = x; return {}; }
    void return_void() {}
    void unhandled_exception() { throw; }
  };
  std::coroutine_handle<promise_type> handle;
};
static made_@N make_@N(u64 h, u32 a) {
  LOCALS;
  for (u32 i = 0; i < @R(1,40); i++) {
    for (u32 j = 0; j < (a & 15); j++) h = h * 3 + j;
    co_yield h;
    a += @E;
    if ((a & 63) == 1) throw a;
  }
  co_yield FOLD;
}
static u64 unit_@N(u64 h) {
  made_@N m = make_@N(h, (u32)h);
  try { while (m.handle.resume(), !m.handle.done()) h ^= m.handle.promise().now; }
  catch (u32 x) { h += x; }
  m.handle.destroy();
  return h;
}
//// nested-throw
static NOINLINE void may_@N(u32 x) { if ((x & 7) == 5) throw x; }
static @ATTR u64 unit_@N(u64 h) {
  u32 a = (u32)h;
  LOCALS;
  for (u32 i = 0; i < @R(1,60); i++) {
    try {
      for (u32 j = 0;; j++) {
        may_@N(a + j);
        if (j > (a & 15)) break;
        { @SMALL }
      }
    } catch (u32 x) {
      for (u32 j = 0; j < (x & 31); j++) {
        try { may_@N(x + j); b += j; } catch (u32 y) { c = c * 3 + y; }
      }
    }
    a = a * 1664525u + 1013904223u;
  }
out:
  return FOLD;
}
