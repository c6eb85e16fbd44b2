// Loop nests in which the budget lives in a register; of which small loops a copy is cut; what loops wait for.
#include "choose/longcalls.h"
#include "choose/loops.h"
#include "facts/cost.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Instructions.h"

using namespace llvm;

namespace curtail {

// In a larger nest of loops the register is missed: what is spilled for it costs more than it saves.
// An interpreter's handlers are alternatives: their number needs no register.
static const unsigned MostInRegister = 1024, MostInHandler = 32;

// What cutting changes in a loop's registers, and behind it, shows in small ones alone. In a large loop
// around them, an interpreter's say, more code makes the registers of all of it worse.
static const unsigned MostCopied = 96, MostAround = 4096;

int Loops::nestOf(const BasicBlock *BB) const {
  for (auto [I, L] : enumerate(Nests))
    if (L->contains(BB))
      return int(I);
  return -1;
}

// Whether the budget can go into a register before the loop, and back to memory behind it: there must be
// a place on the edges in and out. Of a computed goto there is none, but where all ways to its target
// come from the loop, the target is one.
bool Loops::nestPossible(const Loop &L) const {
  auto Fixed = [](const BasicBlock *BB) { return isa<IndirectBrInst, CallBrInst, InvokeInst>(BB->getTerminator()); };
  auto Inside = [&](const BasicBlock *BB) { return L.contains(BB); };
  if (F.callsOut(L))
    return false;
  for (BasicBlock *BB : L.blocks()) {
    if (isa<CallBrInst, InvokeInst>(BB->getTerminator()))
      return false;
    for (BasicBlock *Next : successors(BB)) {
      Loop *Target = A.LI.getLoopFor(Next);
      if (L.contains(Next) && F.isBack(BB, Next) && !(Target->getHeader() == Next && Target->contains(BB)))
        return false;
      if (!L.contains(Next) && (Next->isEHPad() || (Fixed(BB) && !all_of(predecessors(Next), Inside))))
        return false;
    }
  }
  return none_of(predecessors(L.getHeader()), [&](BasicBlock *BB) { return Fixed(BB) && !L.contains(BB); });
}

// Where a loop's header is the dispatch of an interpreter: how many handlers it has.
static unsigned handlersOf(const Loop &L) {
  const Instruction *Dispatch = L.getHeader()->getTerminator();
  if (!isa<SwitchInst, IndirectBrInst>(Dispatch))
    return 0;
  SmallPtrSet<const BasicBlock *, 32> Handlers(succ_begin(Dispatch), succ_end(Dispatch));
  return Handlers.size();
}

// A loop in which a read-modify-write of memory in each iteration would show: one whose iterations
// are short, or that runs loops which are charged each time.
bool Loops::worthRegister(const Loop &L) const {
  if (F.sizeOf(L) > std::max(MostInRegister, MostInHandler * handlersOf(L)))
    return false;
  for (const Loop *Inner : L.getLoopsInPreorder()) {
    if (shortOf(Inner))
      continue;
    const Chunk *C = chunkOf(Inner);
    bool Possible = true; // stays so only if all loops inside are short, or gated
    if (C ? Inner != &L && C->isSelf() : longestIteration(*Inner, Possible, /*PastGates=*/true) <= 64 && Possible)
      return true;
  }
  return false;
}

void Loops::chooseNests() {
  if (Opts.Safepoints != Kind::Clock || F.F.callsFunctionThatReturnsTwice())
    return;
  SmallVector<Loop *, 8> Work(A.LI.begin(), A.LI.end());
  while (!Work.empty()) {
    Loop *L = Work.pop_back_val();
    if (!worthRegister(*L) || !nestPossible(*L)) {
      Work.append(L->begin(), L->end());
      continue;
    }
    Nests.push_back(L);
    for (Chunk &C : Chunks)
      C.Unchecked |= C.isSelf() && L->contains(C.Preheader);
  }
  for (Chunk &C : Chunks)
    C.Nest = nestOf(C.Header);
}

// What an innermost loop waits for beyond its instructions, as work: at full speed, a cycle has about
// three units.
void Loops::findStalls() {
  for (Loop *Each : A.LI.getLoopsInPreorder()) {
    if (!Each->isInnermost() || Each->getNumBlocks() > 32)
      continue;
    SmallVector<BasicBlock *, 8> Body;
    double Work = 0;
    double Header = std::max(F.frequencyOf(*Each->getHeader()), 1.0);
    for (BasicBlock *BB : F.Order) {
      if (!Each->contains(BB))
        continue;
      Body.push_back(BB);
      double Often = F.frequencyOf(*BB) / Header;
      for (Instruction &I : *BB)
        Work += Often * F.costOf(I);
    }
    double Waits = 3.0 * recurrenceOf(*Each, Body) - Work;
    if (Waits > 0)
      Stalls[Each->getHeader()] = Waits;
  }
}

static bool mayCopy(const Loop &L) {
  return none_of(L.blocks(), [](const BasicBlock *BB) {
    return BB->hasAddressTaken() || any_of(*BB, [](const Instruction &I) {
             auto *Call = dyn_cast<CallBase>(&I);
             return I.getType()->isTokenTy() || (Call && (Call->cannotDuplicate() || Call->isConvergent()));
           });
  });
}

// Small loops that are charged as a whole: mostly they fit, and then nothing about them has changed.
void Loops::chooseCopies(ArrayRef<LongCall> LongCalls) {
  SmallPtrSet<const Loop *, 8> Large;
  for (const Loop *L : A.LI)
    if (F.sizeOf(*L) > MostAround)
      Large.insert(L);
  for (Chunk &C : Chunks)
    C.Copied = C.Whole && C.L->isInnermost() && !Large.contains(C.L->getOutermostLoop()) &&
               F.sizeOf(*C.L) <= MostCopied && mayCopy(*C.L) &&
               none_of(LongCalls, [&](const LongCall &Long) { return C.L->contains(Long.Call); });
}

} // namespace curtail
