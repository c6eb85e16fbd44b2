// Trees: a treap with parents to chase, std::map, a trie of words and a k-d tree with bounded search.
#include "../suite.h"
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <vector>

namespace {

struct Node {
  uint64_t key, priority;
  Node *left = nullptr, *right = nullptr;
};

void split(Node *t, uint64_t key, Node *&left, Node *&right) {
  if (t == nullptr) {
    left = right = nullptr;
  } else if (t->key < key) {
    left = t;
    split(t->right, key, t->right, right);
  } else {
    right = t;
    split(t->left, key, left, t->left);
  }
}

Node *join(Node *a, Node *b) {
  if (a == nullptr || b == nullptr)
    return a ? a : b;
  if (a->priority > b->priority) {
    a->right = join(a->right, b);
    return a;
  }
  b->left = join(a, b->left);
  return b;
}

uint64_t treap(size_t n) {
  std::vector<Node> pool(n);
  Node *root = nullptr;
  for (Node &node : pool) {
    node.key = suite_random() >> 20;
    node.priority = suite_random();
    Node *less, *more;
    split(root, node.key, less, more);
    root = join(join(less, &node), more);
  }
  uint64_t sum = 0;
  for (size_t i = 0; i < 2 * n; i++) {
    uint64_t key = i % 2 ? pool[i / 2].key : suite_random() >> 20, depth = 0;
    for (Node *at = root; at != nullptr && at->key != key;
         at = key < at->key ? at->left : at->right)
      depth++;
    sum += depth;
  }
  return sum;
}

uint64_t ordered(size_t n) {
  std::map<uint32_t, uint64_t> map;
  for (size_t i = 0; i < n; i++)
    map[static_cast<uint32_t>(suite_random() >> 44)] += i;
  uint64_t sum = 0;
  for (size_t i = 0; i < n; i++) {
    auto at = map.lower_bound(static_cast<uint32_t>(suite_random() >> 44));
    for (int step = 0; step < 4 && at != map.end(); step++, ++at)
      sum = suite_mix(sum, at->second);
    if (i % 3 == 0 && at != map.end())
      map.erase(at);
  }
  return sum + map.size();
}

struct Trie {
  std::array<std::unique_ptr<Trie>, 8> children;
  uint32_t count = 0;

  uint64_t digest(unsigned depth) const {
    uint64_t sum = count * depth;
    for (auto &child : children)
      if (child)
        sum = suite_mix(sum, child->digest(depth + 1));
    return sum;
  }
};

uint64_t trie(size_t n) {
  Trie root;
  for (size_t i = 0; i < n; i++) {
    Trie *at = &root;
    uint64_t letters = suite_random();
    for (unsigned depth = 1 + letters % 7; depth > 0; depth--, letters >>= 3) {
      auto &child = at->children[letters >> 20 & 7];
      if (!child)
        child = std::make_unique<Trie>();
      at = child.get();
    }
    at->count++;
  }
  return root.digest(1);
}

using Point = std::array<double, 2>;

void arrange(Point *points, size_t n, unsigned axis) {
  if (n < 2)
    return;
  std::nth_element(points, points + n / 2, points + n,
                   [axis](const Point &a, const Point &b) { return a[axis] < b[axis]; });
  arrange(points, n / 2, 1 - axis);
  arrange(points + n / 2 + 1, n - n / 2 - 1, 1 - axis);
}

void nearest(const Point *points, size_t n, unsigned axis, const Point &to, double &best) {
  if (n == 0)
    return;
  const Point &p = points[n / 2];
  double dx = p[0] - to[0], dy = p[1] - to[1], d = dx * dx + dy * dy, over = to[axis] - p[axis];
  best = std::min(best, d);
  const Point *sides[] = {points, points + n / 2 + 1};
  size_t sizes[] = {n / 2, n - n / 2 - 1};
  int first = over > 0;
  nearest(sides[first], sizes[first], 1 - axis, to, best);
  if (over * over < best)
    nearest(sides[1 - first], sizes[1 - first], 1 - axis, to, best);
}

uint64_t planar(size_t n) {
  std::vector<Point> points(n);
  for (Point &p : points)
    p = {suite_unit(), suite_unit()};
  arrange(points.data(), n, 0);
  uint64_t sum = 0;
  for (size_t i = 0; i < n; i++) {
    double best = 4.0;
    nearest(points.data(), n, 0, {suite_unit(), suite_unit()}, best);
    sum = suite_mix_double(sum, best);
  }
  return sum;
}

} // namespace

int main(int argc, char **argv) {
  uint64_t rounds = suite_rounds(argc, argv, 4), sum = 0;
  for (uint64_t r = 0; r < rounds; r++)
    for (size_t n : {10, 300, 8000, 60000})
      for (size_t repeat = 0; repeat < 60000 / n; repeat++) {
        sum = suite_mix(sum, treap(n));
        sum = suite_mix(sum, ordered(n));
        sum = suite_mix(sum, trie(n));
        sum = suite_mix(sum, planar(n));
      }
  return suite_end(sum);
}
