# Part of programs.sh (uses its variables): where nothing may yield; and that unwinding, debug
# information, frame walks and sanitizers know their way through a safepoint.

for level in -O0 -O2; do
  if ! "$out/curtail-c++" $level -g -std=c++17 -I "$header" -o "$scratch/rules" \
    "$here/programs/rules.cpp" 2>"$scratch/log" || [ -s "$scratch/log" ]; then
    cat "$scratch/log"
    fail "rules.cpp $level: does not build in silence"
    continue
  fi
  "$scratch/rules" >"$scratch/got" || fail "rules.cpp $level: status $?"
  cat >"$scratch/expected" <<'TEXT'
constructor, static initialiser: 0
operator new and delete: 0
class operator new: 0
signal handler: 0
sigaction handler: 0
static of a function: 0
call_once: 0
marked: 0
depth 0, fires 1
atexit: 0
destructor at exit: 0
TEXT
  cmp "$scratch/expected" "$scratch/got" || {
    cat "$scratch/got"
    fail "rules.cpp $level: yields where it may not"
  }
  "$out/curtail-verify" --json "$scratch/verdict" "$scratch/rules" >"$scratch/log" || true
  if grep -Eq '"kind": "(forbidden|red-zone)"' "$scratch/verdict"; then
    cat "$scratch/log"
    fail "rules.cpp $level: the verifier finds safepoints where none may be"
  fi
done

for level in -O0 -O1 -O2; do
  "$out/curtail-cc" $level -g -fno-omit-frame-pointer -rdynamic -I "$header" -o "$scratch/frames" \
    "$here/programs/frames.c"
  "$scratch/frames" >"$scratch/got" || fail "frames.c $level: status $?"
  grep -qx 'fired 1, descend frames: 7 by tables, 7 by pointers' "$scratch/got" || {
    cat "$scratch/got"
    fail "frames.c $level: the stack cannot be walked"
  }
  "/usr/lib/llvm-$major/bin/llvm-dwarfdump" --verify --quiet "$scratch/frames" >"$scratch/log" 2>&1 || {
    tail -n 20 "$scratch/log"
    fail "frames.c $level: bad debug information"
  }
  # Every safepoint's call has a line of the source.
  "/usr/lib/llvm-$major/bin/llvm-objdump" -d --no-show-raw-insn "$scratch/frames" |
    sed -n 's/^ *\([0-9a-f]*\):.*call.*<curtail_safepoint_slow[a-z_]*>$/0x\1/p' >"$scratch/calls"
  [ -s "$scratch/calls" ] || fail "frames.c $level: no safepoints"
  "/usr/lib/llvm-$major/bin/llvm-symbolizer" --obj="$scratch/frames" --no-inlines --functions=none \
    --output-style=GNU <"$scratch/calls" >"$scratch/lines"
  if grep -v '/frames\.c:[1-9]' "$scratch/lines" ||
    [ "$(wc -l <"$scratch/calls")" -ne "$(wc -l <"$scratch/lines")" ]; then
    fail "frames.c $level: safepoints without a line"
  fi
done
if command -v gdb >/dev/null; then
  gdb -nx -batch -ex 'set debuginfod enabled off' -ex 'break hook if wanted' -ex run -ex backtrace \
    "$scratch/frames" >"$scratch/got" 2>&1 || true
  if ! [ "$(grep -c ' descend (' "$scratch/got")" -eq 7 ] || ! grep -q ' main ()' "$scratch/got"; then
    cat "$scratch/got"
    fail "gdb cannot walk the stack"
  fi
  echo "done gdb"
else
  echo "skipped gdb: not installed"
fi
echo "done frames"

# Sanitizers, and profilers that count calls. Debian keeps their own code in libclang-rt-NN-dev, and
# some run on some machines only.
export LLVM_PROFILE_FILE="$scratch/counts" GMON_OUT_PREFIX="$scratch/gmon"
for tool in -fsanitize=address -fsanitize=undefined -fsanitize=thread -fprofile-instr-generate -pg; do
  flags="-g $tool"
  case $tool in -fsanitize=*) flags="$flags -fno-sanitize-recover=all" ;; esac
  if ! { echo 'int main(void) { return 0; }' | "$clang" $flags -x c - -o "$scratch/tried" &&
    "$scratch/tried"; } 2>/dev/null; then
    echo "skipped $tool: not installed with this clang, or not for this machine"
    continue
  fi
  compare "mixed.c -O1 $tool" "$clang" curtail-cc mixed.c -O1 $flags
  compare "mixed.cpp -O1 $tool" "$clang++" curtail-c++ mixed.cpp -O1 $flags
done
