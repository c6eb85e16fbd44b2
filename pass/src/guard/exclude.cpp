#include "guard/exclude.h"
#include "guard/signals.h"
#include "names.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;

namespace curtail {

static const char Annotation[] = "curtail.no_safepoint";
static const char SectionMark[] = "curtail_no_safepoint";
// The same, and what it calls does not yield either.
static const char ShieldAnnotation[] = "curtail.no_preempt";
static const char ShieldMark[] = "curtail_no_preempt";

// `<Mine as core::alloc::global::GlobalAlloc>::alloc`, `ns::Node::operator new(unsigned long)`.
static bool isAllocatorMethod(StringRef Mangled) {
  const std::string Readable = readableName(Mangled);
  StringRef Name = Readable;
  return Name.contains(" as core::alloc::global::GlobalAlloc>::") || Name.contains("::operator new") ||
         Name.contains("::operator delete");
}

// Where the runtime calls closures of the user's: they are inlined there (crates/rt/src/user.rs).
static bool callsTheUser(StringRef Name) { return StringRef(readableName(Name)).starts_with("curtail_rt::user::"); }

static StringRef nameReason(StringRef Name) {
  if (Name.starts_with("curtail_safepoint"))
    return "part of Curtail";
  std::string Root = rootOfPath(Name);
  if ((Root == "curtail" || StringRef(Root).starts_with("curtail_")) && !callsTheUser(Name))
    return "part of Curtail";
  if (isListed("exception", Name))
    return "exception support";
  if (isListed("initialiser", Name))
    return "static initialiser";
  // In its crate `__rustc`, Rust has its allocator's functions.
  if (Root == "__rustc" || isListed("allocator", Name) ||
      (isListed("allocator-method", Name) && isAllocatorMethod(Name)))
    return "allocator";
  return isListed("kept-out", Name) ? "kept out by default" : "";
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

// Its child runs on this stack, and in this memory, until it becomes another program. (It is never inlined: it
// returns twice.)
static bool makesChildOnThisStack(const Function &F) {
  return F.callsFunctionThatReturnsTwice() && any_of(instructions(F), [](const Instruction &I) {
           auto *Call = dyn_cast<CallBase>(&I);
           const Function *Callee = Call ? Call->getCalledFunction() : nullptr;
           return Callee && (Callee->getName() == "vfork" || Callee->getName() == "__vfork");
         });
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
  if (makesChildOnThisStack(F))
    return "calls vfork";
  return "";
}

Exclusions::Exclusions(const Module &M, const Options &O) : Opts(O) {
  if (auto *Table = M.getGlobalVariable("llvm.global.annotations"))
    if (auto *Entries = dyn_cast_or_null<ConstantArray>(Table->getInitializer()))
      for (const Use &Entry : Entries->operands()) {
        auto *Fields = dyn_cast<ConstantStruct>(Entry);
        auto *F = Fields ? dyn_cast<Function>(Fields->getOperand(0)->stripPointerCasts()) : nullptr;
        auto *Text = Fields ? dyn_cast<GlobalVariable>(Fields->getOperand(1)->stripPointerCasts()) : nullptr;
        if (!F || !Text || !Text->hasInitializer())
          continue;
        auto *Data = dyn_cast<ConstantDataSequential>(Text->getInitializer());
        if (Data && Data->isCString() && Data->getAsCString() == Annotation)
          Marked[F] = "annotated";
        if (Data && Data->isCString() && Data->getAsCString() == ShieldAnnotation)
          Marked[F] = "marked against pre-emption";
      }
  for (auto [List, Why] :
       {std::pair("llvm.global_ctors", "static initialiser"), std::pair("llvm.global_dtors", "destructor at exit")})
    if (auto *Table = M.getGlobalVariable(List))
      if (auto *Entries = dyn_cast_or_null<ConstantArray>(Table->getInitializer()))
        for (const Use &Entry : Entries->operands())
          if (auto *F = dyn_cast<Function>(cast<ConstantStruct>(Entry)->getOperand(1)->stripPointerCasts()))
            Marked.try_emplace(F, Why);
  // The first reason counts: a mark in the source says more about a handler than its installation.
  for (const Function *F : findSignalHandlers(M))
    Marked.try_emplace(F, "signal handler");
  // Resolvers run before the thread-local block is there.
  for (const GlobalIFunc &I : M.ifuncs())
    if (const Function *F = I.getResolverFunction())
      Marked[F] = "ifunc resolver";
}

StringRef Exclusions::chosenReason(const Function &F) const {
  auto It = Marked.find(&F);
  if (It != Marked.end())
    return It->second;
  if (F.hasFnAttribute(Annotation))
    return "annotated";
  if (F.getSection().contains(SectionMark))
    return "section mark";
  if (F.getSection().contains(ShieldMark))
    return "marked against pre-emption";
  return Opts.KeepOut.contains(F.getName()) ? "keep-out list" : "";
}

StringRef Exclusions::nameOf(const Function &F) const { return nameReason(F.getName()); }

bool Exclusions::isShielded(StringRef Reason) {
  return is_contained({"allocator", "static initialiser", "destructor at exit", "signal handler",
                       "marked against pre-emption", "holds a thread-local", "calls vfork"},
                      Reason);
}

bool Exclusions::isChosen(const Function &F) const { return !chosenReason(F).empty(); }

StringRef Exclusions::reason(const Function &F) const {
  if (F.isDeclaration() || F.hasAvailableExternallyLinkage())
    return "not defined here";
  StringRef Chosen = chosenReason(F);
  if (!Chosen.empty())
    return Chosen;
  StringRef Name = nameReason(F.getName());
  return Name.empty() ? formReason(F) : Name;
}

} // namespace curtail
