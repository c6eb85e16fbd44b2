#include "exclude.h"
#include "locknames.h"
#include "names.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Support/GlobPattern.h"

using namespace llvm;

namespace curtail {

static const char Annotation[] = "curtail.no_safepoint";
static const char SectionMark[] = "curtail_no_safepoint";

// Allocators, and what a compiler may call from anywhere.
static const char *const Allocators[] = {
    "malloc",  "free",     "calloc",         "realloc",       "reallocarray", "memalign",
    "valloc",  "pvalloc",  "posix_memalign", "aligned_alloc", "cfree",        "malloc_usable_size",
    "memcpy",  "memmove",  "memset",         "memcmp",        "bcmp",         "strlen",
    "je_*",    "_rjem_*",  "mi_*",           "_mi_*",         "tc_*",         "tcmalloc*",
    "sdallocx", "nallocx", "rallocx",        "xallocx",       "dallocx",      "mallocx",
    "_Znw*",   "_Zna*",    "_Zdl*",          "_Zda*",         "_ZN8tcmalloc*",
};

static bool matches(StringRef Glob, StringRef Name) {
  Expected<GlobPattern> Pattern = GlobPattern::create(Glob);
  if (!Pattern) {
    consumeError(Pattern.takeError());
    return Glob == Name;
  }
  return Pattern->match(Name);
}

static StringRef nameReason(StringRef Name) {
  if (Name.starts_with("curtail_safepoint"))
    return "part of Curtail";
  std::string Root = rootOfPath(Name);
  if (Root == "curtail" || StringRef(Root).starts_with("curtail_"))
    return "part of Curtail";
  // `__rustc::__rust_alloc` and friends keep their last component in every mangling.
  if (Root == "__rustc" || Name.starts_with("__rust_") || Name.starts_with("__rg_") ||
      Name.starts_with("__rdl_"))
    return "allocator";
  if (Name.starts_with("__cxa_") || Name.starts_with("_Unwind_") || Name.contains("_personality") ||
      Name == "__clang_call_terminate")
    return "exception support";
  if (Name.starts_with("_GLOBAL__") || Name.starts_with("__cxx_global_var_init") ||
      Name.starts_with("__cxx_global_array_dtor"))
    return "static initialiser";
  if (lockRole(Name) != LockRole::None)
    return "part of a lock";
  for (const char *Glob : Allocators)
    if (matches(Glob, Name))
      return "allocator";
  return "";
}

static bool usesTiles(const Function &F) {
  for (const Instruction &I : instructions(F)) {
    if (I.getType()->isX86_AMXTy())
      return true;
    if (auto *Call = dyn_cast<IntrinsicInst>(&I))
      if (Call->getCalledFunction()->getName().starts_with("llvm.x86.t") &&
          Call->getCalledFunction()->getName().contains("tile"))
        return true;
  }
  return false;
}

static StringRef formReason(const Function &F) {
  if (F.isPresplitCoroutine())
    return "coroutine before splitting";
  if (F.hasFnAttribute(Attribute::Naked))
    return "naked";
  if (F.getCallingConv() == CallingConv::X86_INTR || F.hasFnAttribute("no_caller_saved_registers"))
    return "interrupt handler";
  StringRef Features = F.getFnAttribute("target-features").getValueAsString();
  if (Features.contains("+egpr"))
    return "APX registers";
  if (Features.contains("-sse2") || Features.contains("-sse,"))
    return "no SSE";
  if (usesTiles(F))
    return "AMX tiles";
  return "";
}

Exclusions::Exclusions(const Module &M, const Options &O) : Opts(O) {
  if (auto *Table = M.getGlobalVariable("llvm.global.annotations"))
    if (auto *Entries = dyn_cast_or_null<ConstantArray>(Table->getInitializer()))
      for (const Use &Entry : Entries->operands()) {
        auto *Fields = dyn_cast<ConstantStruct>(Entry);
        auto *F = Fields ? dyn_cast<Function>(Fields->getOperand(0)->stripPointerCasts()) : nullptr;
        auto *Text =
            Fields ? dyn_cast<GlobalVariable>(Fields->getOperand(1)->stripPointerCasts()) : nullptr;
        if (!F || !Text || !Text->hasInitializer())
          continue;
        auto *Data = dyn_cast<ConstantDataSequential>(Text->getInitializer());
        if (Data && Data->isCString() && Data->getAsCString() == Annotation)
          Marked[F] = "annotated";
      }
  // Resolvers run before the thread-local block is there.
  for (const GlobalIFunc &I : M.ifuncs())
    if (const Function *F = I.getResolverFunction())
      Marked[F] = "ifunc resolver";
}

StringRef Exclusions::reason(const Function &F) const {
  if (F.isDeclaration() || F.hasAvailableExternallyLinkage())
    return "not defined here";
  auto It = Marked.find(&F);
  if (It != Marked.end())
    return It->second;
  if (F.hasFnAttribute(Annotation))
    return "annotated";
  if (F.getSection().contains(SectionMark))
    return "section mark";
  for (const std::string &Glob : Opts.KeepOut)
    if (matches(Glob, F.getName()) || matches(Glob, demangle(F.getName())))
      return "keep-out list";
  StringRef Name = nameReason(F.getName());
  return Name.empty() ? formReason(F) : Name;
}

} // namespace curtail
