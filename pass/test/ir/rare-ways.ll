; Where the longest way to a place asks for a safepoint and the usual one does not, it goes to the longest,
; if that is rarer. (A division is as long as ten other instructions, the bound 200, and a quarter of it is
; all that may lie before a return.)
; RUN: CURTAIL_PASS=bound=200 opt -passes=curtail-safepoints -S < %s | FileCheck %s

@cell = external global i64

; The rare way is longer.
; CHECK-LABEL: define i64 @rare(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: rare:
; CHECK: sdiv
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: end:
; CHECK-NOT: curtail_safepoint
; CHECK: ret i64
define i64 @rare(i64 %x, i64 %y) {
  %e0 = sdiv i64 %x, %y
  %e1 = sdiv i64 %e0, %y
  %e2 = sdiv i64 %e1, %y
  %e3 = sdiv i64 %e2, %y
  %e4 = sdiv i64 %e3, %y
  %e5 = sdiv i64 %e4, %y
  %e6 = sdiv i64 %e5, %y
  %hit = icmp ne i64 %e6, 7
  br i1 %hit, label %end, label %rare, !prof !0
rare:
  %r0 = sdiv i64 %e6, %y
  %r1 = sdiv i64 %r0, %y
  %r2 = sdiv i64 %r1, %y
  %r3 = sdiv i64 %r2, %y
  br label %end
end:
  %sum = phi i64 [ %e6, %0 ], [ %r3, %rare ]
  %j0 = sdiv i64 %sum, %y
  %j1 = sdiv i64 %j0, %y
  ret i64 %j1
}

; The usual way is: nothing is gained.
; CHECK-LABEL: define i64 @usual(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: usual:
; CHECK-NOT: curtail_safepoint
; CHECK: end:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: ret i64
define i64 @usual(i64 %x, i64 %y) {
  %e0 = sdiv i64 %x, %y
  %e1 = sdiv i64 %e0, %y
  %e2 = sdiv i64 %e1, %y
  %e3 = sdiv i64 %e2, %y
  %e4 = sdiv i64 %e3, %y
  %e5 = sdiv i64 %e4, %y
  %e6 = sdiv i64 %e5, %y
  %hit = icmp ne i64 %e6, 7
  br i1 %hit, label %usual, label %end, !prof !0
usual:
  %r0 = sdiv i64 %e6, %y
  %r1 = sdiv i64 %r0, %y
  %r2 = sdiv i64 %r1, %y
  %r3 = sdiv i64 %r2, %y
  br label %end
end:
  %sum = phi i64 [ %e6, %0 ], [ %r3, %usual ]
  %j0 = sdiv i64 %sum, %y
  %j1 = sdiv i64 %j0, %y
  ret i64 %j1
}

; Two rare ways that lead to the same place have one in common.
; CHECK-LABEL: define i64 @two(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: rare:
; CHECK-NOT: curtail_safepoint_slow
; CHECK: other:
; CHECK-NOT: curtail_safepoint_slow
; CHECK: end.long:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: end:
; CHECK-NOT: curtail_safepoint
; CHECK: ret i64
define i64 @two(i64 %x, i64 %y) {
  %e0 = sdiv i64 %x, %y
  %e1 = sdiv i64 %e0, %y
  %e2 = sdiv i64 %e1, %y
  %e3 = sdiv i64 %e2, %y
  %e4 = sdiv i64 %e3, %y
  %e5 = sdiv i64 %e4, %y
  %e6 = sdiv i64 %e5, %y
  %hit = icmp ne i64 %e6, 7
  br i1 %hit, label %second, label %rare, !prof !0
rare:
  %r0 = sdiv i64 %e6, %y
  %r1 = sdiv i64 %r0, %y
  %r2 = sdiv i64 %r1, %y
  %r3 = sdiv i64 %r2, %y
  br label %end
second:
  %again = icmp ne i64 %y, 7
  br i1 %again, label %end, label %other, !prof !0
other:
  %o0 = sdiv i64 %e6, %y
  %o1 = sdiv i64 %o0, %y
  %o2 = sdiv i64 %o1, %y
  %o3 = sdiv i64 %o2, %y
  %o4 = sdiv i64 %o3, %y
  br label %end
end:
  %sum = phi i64 [ %e6, %second ], [ %r3, %rare ], [ %o4, %other ]
  %j0 = sdiv i64 %sum, %y
  %j1 = sdiv i64 %j0, %y
  ret i64 %j1
}

; All ways are long: one safepoint, where they join, and none is left of the tries.
; CHECK-LABEL: define i64 @all(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: one:
; CHECK-NOT: curtail_safepoint
; CHECK: end:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: ret i64
define i64 @all(i64 %x, i64 %y) {
  %e0 = sdiv i64 %x, %y
  %e1 = sdiv i64 %e0, %y
  %e2 = sdiv i64 %e1, %y
  %e3 = sdiv i64 %e2, %y
  %e4 = sdiv i64 %e3, %y
  %e5 = sdiv i64 %e4, %y
  %e6 = sdiv i64 %e5, %y
  %either = icmp ne i64 %e6, 7
  br i1 %either, label %one, label %other, !prof !1
one:
  %r0 = sdiv i64 %e6, %y
  %r1 = sdiv i64 %r0, %y
  %r2 = sdiv i64 %r1, %y
  %r3 = sdiv i64 %r2, %y
  br label %end
other:
  %o0 = sdiv i64 %e6, %y
  %o1 = sdiv i64 %o0, %y
  %o2 = sdiv i64 %o1, %y
  %o3 = sdiv i64 %o2, %y
  %o4 = sdiv i64 %o3, %y
  br label %end
end:
  %sum = phi i64 [ %r3, %one ], [ %o4, %other ]
  %j0 = sdiv i64 %sum, %y
  %j1 = sdiv i64 %j0, %y
  ret i64 %j1
}

; A loop that is on the way is no place: how often it goes round is guessed.
; CHECK-LABEL: define i64 @looped(
; CHECK: header:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: rarely:
; CHECK-NOT: curtail_safepoint_slow
; CHECK: end:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: ret i64
define i64 @looped(i64 %x, i64 %y) {
  br label %header
header:
  %v = load volatile i64, ptr @cell
  %hit = icmp ne i64 %v, 7
  br i1 %hit, label %latch, label %rarely, !prof !0
rarely:
  %q0 = sdiv i64 %v, %y
  %q1 = sdiv i64 %q0, %y
  %q2 = sdiv i64 %q1, %y
  %q3 = sdiv i64 %q2, %y
  br label %latch
latch:
  %w = phi i64 [ %v, %header ], [ %q3, %rarely ]
  %more = icmp eq i64 %w, %x
  br i1 %more, label %header, label %end
end:
  %j0 = sdiv i64 %w, %y
  %j1 = sdiv i64 %j0, %y
  ret i64 %j1
}

; Moved, it would have to be made up for by another one behind it, and how often that runs is guessed.
; CHECK-LABEL: define i64 @behind(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: rare:
; CHECK-NOT: curtail_safepoint
; CHECK: end:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: long:
; CHECK-NOT: curtail_safepoint
; CHECK: ret i64
define i64 @behind(i64 %x, i64 %y) {
  %e0 = sdiv i64 %x, %y
  %e1 = sdiv i64 %e0, %y
  %e2 = sdiv i64 %e1, %y
  %e3 = sdiv i64 %e2, %y
  %e4 = sdiv i64 %e3, %y
  %e5 = sdiv i64 %e4, %y
  %e6 = sdiv i64 %e5, %y
  %hit = icmp ne i64 %e6, 7
  br i1 %hit, label %end, label %rare, !prof !0
rare:
  %w0 = sdiv i64 %e6, %y
  %w1 = sdiv i64 %w0, %y
  %w2 = sdiv i64 %w1, %y
  %w3 = sdiv i64 %w2, %y
  %w4 = sdiv i64 %w3, %y
  %w5 = sdiv i64 %w4, %y
  %w6 = sdiv i64 %w5, %y
  %w7 = sdiv i64 %w6, %y
  %w8 = sdiv i64 %w7, %y
  %w9 = sdiv i64 %w8, %y
  %w10 = sdiv i64 %w9, %y
  %w11 = sdiv i64 %w10, %y
  %w12 = sdiv i64 %w11, %y
  %w13 = sdiv i64 %w12, %y
  %w14 = sdiv i64 %w13, %y
  %w15 = sdiv i64 %w14, %y
  br label %end
end:
  %sum = phi i64 [ %e6, %0 ], [ %w15, %rare ]
  %k0 = sdiv i64 %sum, %y
  %k1 = sdiv i64 %k0, %y
  %either = icmp ne i64 %k1, 7
  br i1 %either, label %short, label %long, !prof !1
short:
  ret i64 %k1
long:
  %b0 = sdiv i64 %k1, %y
  %b1 = sdiv i64 %b0, %y
  %b2 = sdiv i64 %b1, %y
  ret i64 %b2
}

; Of the ways to the return, those that come from calls need one, and they are rare: they get a block of
; their own.
; CHECK-LABEL: define i64 @part(
; CHECK: node:
; CHECK: br i1 %zero, label %end.long, label %right
; CHECK: right:
; CHECK: br label %end.long
; CHECK: end.long:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: br label %end
; CHECK: end:
; CHECK-NOT: curtail_safepoint
; CHECK: ret i64
define i64 @part(ptr %n, i64 %y) noinline {
  %leaf = icmp eq ptr %n, null
  br i1 %leaf, label %end, label %node, !prof !0
node:
  %left = load ptr, ptr %n
  %l = call i64 @part(ptr %left, i64 %y)
  %l0 = sdiv i64 %l, %y
  %l1 = sdiv i64 %l0, %y
  %l2 = sdiv i64 %l1, %y
  %l3 = sdiv i64 %l2, %y
  %l4 = sdiv i64 %l3, %y
  %zero = icmp eq i64 %l4, 0
  br i1 %zero, label %end, label %right
right:
  %place = getelementptr ptr, ptr %n, i64 1
  %other = load ptr, ptr %place
  %r = call i64 @part(ptr %other, i64 %y)
  %r0 = sdiv i64 %r, %y
  %r1 = sdiv i64 %r0, %y
  %r2 = sdiv i64 %r1, %y
  %r3 = sdiv i64 %r2, %y
  %r4 = sdiv i64 %r3, %y
  br label %end
end:
  %sum = phi i64 [ 0, %0 ], [ %l4, %node ], [ %r4, %right ]
  ret i64 %sum
}

; Where they are usual, it stays where they join.
; CHECK-LABEL: define i64 @whole(
; CHECK-NOT: end.long
; CHECK: end:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: ret i64
define i64 @whole(ptr %n, i64 %y) noinline {
  %leaf = icmp eq ptr %n, null
  br i1 %leaf, label %end, label %node, !prof !2
node:
  %left = load ptr, ptr %n
  %l = call i64 @whole(ptr %left, i64 %y)
  %l0 = sdiv i64 %l, %y
  %l1 = sdiv i64 %l0, %y
  br label %end
end:
  %sum = phi i64 [ 0, %0 ], [ %l1, %node ]
  ret i64 %sum
}

!0 = !{!"branch_weights", i32 1000, i32 1}
!1 = !{!"branch_weights", i32 1, i32 1}
!2 = !{!"branch_weights", i32 1, i32 1000}
