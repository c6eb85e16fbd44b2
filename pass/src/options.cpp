#include "options.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/Process.h"

using namespace llvm;

namespace curtail {

static Error wrong(const Twine &Message) {
  return createStringError(inconvertibleErrorCode(), "CURTAIL_PASS: " + Message);
}

static Error setOption(Options &O, StringRef Key, StringRef Value) {
  if (Key == "kind") {
    if (Value == "clock")
      O.Safepoints = Kind::Clock;
    else if (Value == "flag")
      O.Safepoints = Kind::Flag;
    else if (Value == "none")
      O.Safepoints = Kind::None;
    else if (Value == "rdtsc")
      O.Safepoints = Kind::Reads;
    else
      return wrong("kind=" + Value + ": clock, flag, rdtsc or none");
  } else if (Key == "bound") {
    // Below 20 the slow path's own refill is coarser; above, no 32-bit cost overflows.
    if (Value.getAsInteger(10, O.Bound) || O.Bound < 20 || O.Bound > 1000000)
      return wrong("bound=" + Value + ": a number from 20 to 1000000");
  } else if (Key == "tls") {
    if (Value == "auto")
      O.Model = Tls::Auto;
    else if (Value == "local")
      O.Model = Tls::Local;
    else if (Value == "initial")
      O.Model = Tls::Initial;
    else
      return wrong("tls=" + Value + ": auto, local or initial");
  } else if (Key == "report") {
    O.Report = Value.str();
  } else if (Key == "keep-out") {
    if (Error E = O.KeepOut.read(Value))
      return wrong(toString(std::move(E)));
  } else {
    return wrong("unknown key '" + Key + "'");
  }
  return Error::success();
}

Expected<Options> parseOptions(StringRef Text) {
  Options O;
  SmallVector<StringRef, 8> Parts;
  Text.split(Parts, ',', -1, /*KeepEmpty=*/false);
  for (StringRef Part : Parts) {
    auto [Key, Value] = Part.split('=');
    if (Error E = setOption(O, Key.trim(), Value.trim()))
      return E;
  }
  return O;
}

const Options &options() {
  static const Options O = [] {
    auto Text = sys::Process::GetEnv("CURTAIL_PASS");
    Expected<Options> Parsed = parseOptions(Text ? *Text : "");
    if (!Parsed)
      report_fatal_error(Parsed.takeError(), /*gen_crash_diag=*/false);
    return *Parsed;
  }();
  return O;
}

} // namespace curtail
