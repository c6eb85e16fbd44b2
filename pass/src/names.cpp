#include "names.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/Support/GlobPattern.h"
#include <vector>

using namespace llvm;

namespace curtail {

static const char List[] =
#include "names.inc"
    ;

void eachLine(StringRef Kind, function_ref<void(ArrayRef<StringRef> Words)> Do) {
  SmallVector<StringRef, 128> Lines;
  StringRef(List).split(Lines, '\n');
  for (StringRef Line : Lines) {
    SmallVector<StringRef, 16> Words;
    SplitString(Line, Words);
    if (!Words.empty() && Words.front() == Kind)
      Do(ArrayRef(Words).drop_front());
  }
}

bool isListed(StringRef Kind, StringRef Name) {
  static const StringMap<std::vector<GlobPattern>> Tables = [] {
    StringMap<std::vector<GlobPattern>> All;
    for (StringRef Each : {"allocator", "allocator-method", "exception", "initialiser", "kept-out"})
      eachLine(Each, [&](ArrayRef<StringRef> Words) {
        for (StringRef Glob : Words)
          All[Each].push_back(cantFail(GlobPattern::create(Glob)));
      });
    return All;
  }();
  return any_of(Tables.find(Kind)->second, [&](const GlobPattern &Glob) { return Glob.match(Name); });
}

static void replaceAll(std::string &Text, StringRef From, StringRef To) {
  for (size_t At = 0; (At = Text.find(From.data(), At, From.size())) != std::string::npos; At += To.size())
    Text.replace(At, From.size(), To.data(), To.size());
}

std::string readableName(StringRef Mangled) {
  // Link-time optimisation appends to the names of what it makes global.
  std::string Text = demangle(Mangled.split(".llvm.").first);
  if (!Mangled.starts_with("_ZN"))
    return Text;
  // A legacy name: the demangler is C++'s.
  auto [Path, Hash] = StringRef(Text).rsplit("::");
  if (Hash.size() != 17 || Hash[0] != 'h' || !all_of(Hash.drop_front(), isHexDigit))
    return Text;
  Text = Path.str();
  replaceAll(Text, "_$LT$", "<");
  for (auto [From, To] : {std::pair<StringRef, StringRef>("$LT$", "<"),
                          {"$GT$", ">"},
                          {"$RF$", "&"},
                          {"$LP$", "("},
                          {"$RP$", ")"},
                          {"$C$", ","},
                          {"$u20$", " "},
                          {"$u7b$", "{"},
                          {"$u7d$", "}"},
                          {"..", "::"}})
    replaceAll(Text, From, To);
  return Text;
}

std::string rootOfPath(StringRef Mangled) {
  if (!Mangled.starts_with("_R") && !Mangled.starts_with("_Z"))
    return "";
  std::string Demangled = readableName(Mangled);
  StringRef Path = Demangled;
  if (Path == Mangled)
    return "";
  for (bool Again = true; Again;) {
    Path = Path.ltrim("<&*([ ");
    Again = false;
    for (StringRef Word : {"mut ", "const ", "dyn ", "impl "})
      Again |= Path.consume_front(Word);
  }
  return Path.take_while([](char C) { return isAlnum(C) || C == '_' || C == '$'; }).str();
}

} // namespace curtail
