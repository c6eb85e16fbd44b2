#include "keepout.h"
#include "names.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Instruction.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;

namespace curtail {

static Error wrong(const Twine &Message) { return createStringError(inconvertibleErrorCode(), Message); }

Error KeepOutList::read(StringRef File) {
  auto Buffer = MemoryBuffer::getFile(File, /*IsText=*/true);
  if (!Buffer)
    return wrong("keep-out=" + File + ": " + Buffer.getError().message());
  SmallVector<StringRef, 16> Lines;
  (*Buffer)->getBuffer().split(Lines, '\n');
  for (auto [Number, Line] : enumerate(Lines)) {
    Line = Line.split('#').first.trim();
    if (Line.empty())
      continue;
    Expected<GlobPattern> Glob = GlobPattern::create(Line);
    if (!Glob)
      return wrong("keep-out=" + File + ": line " + Twine(Number + 1) + ": " + toString(Glob.takeError()) + ": " +
                   Line);
    Globs.push_back({Line, std::move(*Glob)});
  }
  Files.push_back(std::move(*Buffer));
  return Error::success();
}

bool KeepOutList::contains(StringRef Mangled) const {
  if (Globs.empty())
    return false;
  // Rust's demanglers differ in what they leave of legacy names.
  const std::string Readable = readableName(Mangled), Demangled = demangle(Mangled);
  return any_of(Globs, [&](const Entry &E) {
    return any_of(ArrayRef<StringRef>{Mangled, Readable, Demangled},
                  [&](StringRef Name) { return Name == E.Text || E.Glob.match(Name); });
  });
}

bool KeepOutList::containsPlace(const Instruction &I) const {
  if (Globs.empty() || !I.getDebugLoc() || !I.getDebugLoc().getInlinedAt())
    return false;
  for (const DILocation *At = I.getDebugLoc(); At->getInlinedAt(); At = At->getInlinedAt()) {
    const DISubprogram *Of = At->getScope()->getSubprogram();
    StringRef Name = Of->getLinkageName();
    if (contains(Name.empty() ? Of->getName() : Name))
      return true;
  }
  return false;
}

} // namespace curtail
