#include "guard/locknames.h"
#include "names.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;

namespace curtail {

static const StringMap<LockRole> &table() {
  static const StringMap<LockRole> Table = [] {
    StringMap<LockRole> All;
    eachLine("lock", [&](ArrayRef<StringRef> Words) {
      LockRole Role = StringSwitch<LockRole>(Words[1])
                          .Case("take", LockRole::Take)
                          .Case("give", LockRole::Give)
                          .Case("wake", LockRole::Wake)
                          .Case("within", LockRole::Within)
                          .Default(LockRole::Other);
      for (StringRef Method : Words.drop_front(2))
        All[(Twine(Words[0]) + "::" + Method).str()] = Role;
    });
    return All;
  }();
  return Table;
}

// `type::method`, without generic arguments and traits.
static std::string pathOf(StringRef Mangled) {
  std::string Name = readableName(Mangled);
  auto [Type, Method] = StringRef(Name).rsplit("::");
  Type.consume_front("<");
  Type = Type.take_until([](char C) { return C == '<' || C == '>' || C == ' '; });
  Type.consume_back("::");
  return (Type + Twine("::") + Method).str();
}

LockRole lockRole(StringRef Mangled) {
  // Few names are worth demangling.
  bool ParkingLot = Mangled.contains("parking_lot");
  if (!ParkingLot && !Mangled.contains("futex") && !Mangled.contains("reentrant_lock") && !Mangled.contains("stdio"))
    return LockRole::None;
  LockRole Role = table().lookup(pathOf(Mangled));
  if (Role != LockRole::None || !ParkingLot)
    return Role;
  std::string Root = rootOfPath(Mangled);
  return Root == "parking_lot" || Root == "parking_lot_core" ? LockRole::Within : LockRole::None;
}

} // namespace curtail
