// A loop's safepoint goes from the top of the header, which is passed by ways, too, that never go round, behind the
// tests that end the loop.
#pragma once
#include "choose/walk.h"

namespace curtail {

// Where calls are, and the function then has no more safepoints, and they run less often. `W` is what comes of `C`.
void preferBehindTests(const Facts &F, const Loops &L, Choice &C, Walked &W);

} // namespace curtail
