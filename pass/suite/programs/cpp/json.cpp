// A parser for JSON: recursive descent over generated documents, values on the heap, exceptions for
// bad input (one document in sixteen), and a writer that gives the text back.
#include "../suite.h"
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace {

struct Value;
using Array = std::vector<Value>;
using Object = std::map<std::string, Value>;

struct Value {
  std::variant<std::nullptr_t, bool, double, std::string, Array, Object> is;
};

class Parser {
public:
  explicit Parser(const std::string &text) : at(text.data()), end(text.data() + text.size()) {}

  Value document() {
    Value v = value(0);
    space();
    if (at != end)
      fail("more after the end");
    return v;
  }

private:
  const char *at, *end;

  [[noreturn]] void fail(const char *why) { throw std::runtime_error(why); }

  void space() {
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\t'))
      at++;
  }

  bool take(char c) {
    space();
    if (at == end || *at != c)
      return false;
    at++;
    return true;
  }

  void word(const char *text) {
    for (; *text != 0; text++)
      if (at == end || *at++ != *text)
        fail("no such word");
  }

  std::string string() {
    std::string out;
    while (at < end && *at != '"') {
      char c = *at++;
      if (c == '\\') {
        if (at == end)
          break;
        c = *at++;
        c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
      }
      out += c;
    }
    if (at == end)
      fail("string without end");
    at++;
    return out;
  }

  double number() {
    double sign = 1.0, v = 0.0, unit = 1.0;
    if (*at == '-') {
      sign = -1.0;
      at++;
    }
    const char *begin = at;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
      v = v * 10 + (*at - '0');
    if (at < end && *at == '.')
      for (at++; at < end && *at >= '0' && *at <= '9'; at++)
        v += (*at - '0') * (unit /= 10);
    if (at == begin)
      fail("no value");
    return sign * v;
  }

  Value value(int depth) {
    if (depth > 64)
      fail("too deep");
    space();
    if (at == end)
      fail("no value");
    switch (*at) {
    case '{': return at++, object(depth);
    case '[': return at++, array(depth);
    case '"': return at++, Value{string()};
    case 't': return word("true"), Value{true};
    case 'f': return word("false"), Value{false};
    case 'n': return word("null"), Value{nullptr};
    default: return Value{number()};
    }
  }

  Value array(int depth) {
    Array items;
    if (take(']'))
      return Value{std::move(items)};
    do
      items.push_back(value(depth + 1));
    while (take(','));
    if (!take(']'))
      fail("array without end");
    return Value{std::move(items)};
  }

  Value object(int depth) {
    Object members;
    if (take('}'))
      return Value{std::move(members)};
    do {
      if (!take('"'))
        fail("no name");
      std::string name = string();
      if (!take(':'))
        fail("no colon");
      members[std::move(name)] = value(depth + 1);
    } while (take(','));
    if (!take('}'))
      fail("object without end");
    return Value{std::move(members)};
  }
};

uint64_t digest(const Value &v) {
  uint64_t sum = v.is.index();
  if (auto *number = std::get_if<double>(&v.is))
    return suite_mix_double(sum, *number);
  if (auto *text = std::get_if<std::string>(&v.is))
    for (char c : *text)
      sum = sum * 31 + static_cast<unsigned char>(c);
  if (auto *items = std::get_if<Array>(&v.is))
    for (auto &item : *items)
      sum = suite_mix(sum, digest(item));
  if (auto *members = std::get_if<Object>(&v.is))
    for (auto &[name, member] : *members)
      sum = suite_mix(sum + name.size(), digest(member));
  return sum;
}

void write(std::string &out, int depth) {
  switch (depth > 5 ? 2 + suite_below(4) : suite_below(6)) {
  case 0:
    out += '{';
    for (uint64_t i = 0, n = suite_below(7); i < n; i++) {
      out += i ? ", \"" : "\"";
      out += static_cast<char>('a' + suite_below(26));
      out += "name\": ";
      write(out, depth + 1);
    }
    out += '}';
    break;
  case 1:
    out += '[';
    for (uint64_t i = 0, n = suite_below(10); i < n; i++) {
      out += i ? "," : "";
      write(out, depth + 1);
    }
    out += ']';
    break;
  case 2: out += suite_below(2) ? "true" : "null"; break;
  case 3: out += '"' + std::string(suite_below(40), 'x') + "\\n\""; break;
  default: out += std::to_string(static_cast<int>(suite_below(100000)) - 50000) + ".25";
  }
}

} // namespace

int main(int argc, char **argv) {
  uint64_t rounds = suite_rounds(argc, argv, 330), sum = 0;
  std::vector<std::string> texts(64);
  for (auto &text : texts) {
    text = "[";
    while (text.size() < 4000) {
      write(text, 0);
      text += ",\n ";
    }
    text += "null]";
  }
  for (size_t i = 0; i < texts.size(); i += 16)
    texts[i].resize(texts[i].size() - 100);
  for (uint64_t r = 0; r < rounds; r++)
    for (auto &text : texts)
      try {
        sum = suite_mix(sum, digest(Parser(text).document()));
      } catch (const std::runtime_error &error) {
        sum = suite_mix(sum, strlen(error.what()));
      }
  return suite_end(sum);
}
