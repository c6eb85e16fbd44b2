#include "locknames.h"
#include "names.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;

namespace curtail {

namespace {
struct Row {
  const char *Type;
  LockRole Role;
  const char *Methods;
};
} // namespace

static const Row Rows[] = {
    {"std::sys::sync::mutex::futex::Mutex", LockRole::Take, "lock try_lock lock_contended"},
    {"std::sys::sync::mutex::futex::Mutex", LockRole::Give, "unlock"},
    {"std::sys::sync::mutex::futex::Mutex", LockRole::Wake, "wake"},
    {"std::sys::sync::rwlock::futex::RwLock", LockRole::Take,
     "read try_read read_contended write try_write write_contended"},
    {"std::sys::sync::rwlock::futex::RwLock", LockRole::Give, "read_unlock write_unlock"},
    {"std::sys::sync::rwlock::futex::RwLock", LockRole::Wake, "wake_writer_or_readers"},
    {"std::sys::sync::once::futex::Once", LockRole::Within, "call"},
    // Its guard gives back an ordinary mutex.
    {"std::io::stdio::Stdin", LockRole::Take, "lock"},
    // Re-entrant, and taken within the library: a fiber that holds stdout may be pre-empted.
    {"std::sync::reentrant_lock::ReentrantLock", LockRole::Other, "lock try_lock"},
    {"std::sync::reentrant_lock::ReentrantLockGuard", LockRole::Other, "drop"},

    {"parking_lot::raw_mutex::RawMutex", LockRole::Take,
     "lock try_lock try_lock_for try_lock_until lock_slow"},
    {"parking_lot::raw_mutex::RawMutex", LockRole::Give, "unlock unlock_fair unlock_slow"},
    {"parking_lot::raw_rwlock::RawRwLock", LockRole::Take,
     "lock_exclusive try_lock_exclusive try_lock_exclusive_for try_lock_exclusive_until "
     "lock_exclusive_slow lock_shared try_lock_shared try_lock_shared_for try_lock_shared_until "
     "lock_shared_recursive try_lock_shared_recursive try_lock_shared_recursive_for "
     "try_lock_shared_recursive_until try_lock_shared_fast try_lock_shared_slow lock_shared_slow "
     "lock_upgradable try_lock_upgradable try_lock_upgradable_for try_lock_upgradable_until "
     "try_lock_upgradable_fast try_lock_upgradable_slow lock_upgradable_slow"},
    {"parking_lot::raw_rwlock::RawRwLock", LockRole::Give,
     "unlock_exclusive unlock_exclusive_fair unlock_exclusive_slow unlock_shared "
     "unlock_shared_fair unlock_upgradable unlock_upgradable_fair unlock_upgradable_slow"},
    {"parking_lot::raw_rwlock::RawRwLock", LockRole::Wake, "unlock_shared_slow"},
    {"parking_lot::once::Once", LockRole::Within, "call_once_slow"},
    {"parking_lot_core::word_lock::WordLock", LockRole::Take, "lock lock_slow"},
    {"parking_lot_core::word_lock::WordLock", LockRole::Give, "unlock"},
    {"parking_lot_core::word_lock::WordLock", LockRole::Wake, "unlock_slow"},
};

static const StringMap<LockRole> &table() {
  static const StringMap<LockRole> Table = [] {
    StringMap<LockRole> All;
    for (const Row &R : Rows) {
      SmallVector<StringRef, 16> Methods;
      StringRef(R.Methods).split(Methods, ' ');
      for (StringRef Method : Methods)
        All[(Twine(R.Type) + "::" + Method).str()] = R.Role;
    }
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
  if (!ParkingLot && !Mangled.contains("futex") && !Mangled.contains("reentrant_lock") &&
      !Mangled.contains("stdio"))
    return LockRole::None;
  LockRole Role = table().lookup(pathOf(Mangled));
  if (Role != LockRole::None || !ParkingLot)
    return Role;
  std::string Root = rootOfPath(Mangled);
  return Root == "parking_lot" || Root == "parking_lot_core" ? LockRole::Within : LockRole::None;
}

} // namespace curtail
