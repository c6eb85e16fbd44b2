; Functions that carry no safepoint because of what they are.
; RUN: opt -passes=curtail-safepoints -S < %s | FileCheck %s

@text = private constant [21 x i8] c"curtail.no_safepoint\00", section "llvm.metadata"
@llvm.global.annotations = appending global [1 x { ptr, ptr, ptr, i32, ptr }] [
  { ptr, ptr, ptr, i32, ptr } { ptr @annotated, ptr @text, ptr null, i32 0, ptr null }], section "llvm.metadata"

; The other functions are checked for having none; this one for the test's own sake.
; CHECK-LABEL: define void @plain(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow{{[_se]*}}"
define void @plain(ptr %p) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br label %loop
}

; CHECK-LABEL: define void @annotated(
; CHECK-NOT: call void asm
; CHECK: br label %loop
define void @annotated(ptr %p) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br label %loop
}

; CHECK-LABEL: define void @marked(
; CHECK-NOT: call void asm
; CHECK: br label %loop
define void @marked(ptr %p) section ".text.curtail_no_safepoint" {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br label %loop
}

; CHECK-LABEL: define void @naked(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: unreachable
define void @naked() naked {
  call void asm sideeffect "ret", ""()
  unreachable
}

; Curtail's own crates, in both of Rust's manglings (curtail_fiber::f, <curtail::Server>::f).
; CHECK-LABEL: define void @_RNvCs1234_13curtail_fiber1f(
; CHECK-NOT: call void asm
; CHECK: br label %loop
define void @_RNvCs1234_13curtail_fiber1f(ptr %p) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br label %loop
}

; CHECK-LABEL: define void @_ZN7curtail6Server1f17h0123456789abcdefE(
; CHECK-NOT: call void asm
; CHECK: br label %loop
define void @_ZN7curtail6Server1f17h0123456789abcdefE(ptr %p) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br label %loop
}

; What stands in curtail_rt::user holds the user's closures: curtail_rt::user::call::<app::f>, in both manglings.
; CHECK-LABEL: define void @_RINvNtCs1234_10curtail_rt4user4callNvCs5678_3app1fE(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow{{[_se]*}}"
define void @_RINvNtCs1234_10curtail_rt4user4callNvCs5678_3app1fE(ptr %p) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br label %loop
}

; CHECK-LABEL: define void @_ZN10curtail_rt4user4call17h0123456789abcdefE(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow{{[_se]*}}"
define void @_ZN10curtail_rt4user4call17h0123456789abcdefE(ptr %p) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br label %loop
}

; A module of ours whose name begins the same way is ours.
; CHECK-LABEL: define void @_RNvNtCs1234_10curtail_rt5users1f(
; CHECK-NOT: call void asm
; CHECK: br label %loop
define void @_RNvNtCs1234_10curtail_rt5users1f(ptr %p) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br label %loop
}

; A crate whose name merely contains it is none of ours.
; CHECK-LABEL: define void @_RNvCs1234_10uncurtaile1f(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow{{[_se]*}}"
define void @_RNvCs1234_10uncurtaile1f(ptr %p) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br label %loop
}

; CHECK-LABEL: define void @je_arena_purge(
; CHECK-NOT: call void asm
; CHECK: br label %loop
define void @je_arena_purge(ptr %p) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br label %loop
}

; CHECK-LABEL: define void @_GLOBAL__sub_I_main.cpp(
; CHECK-NOT: call void asm
; CHECK: br label %loop
define void @_GLOBAL__sub_I_main.cpp(ptr %p) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br label %loop
}

; CHECK-LABEL: define void @_RNvCs5678_7___rustc12___rust_alloc(
; CHECK-NOT: call void asm
; CHECK: br label %loop
define void @_RNvCs5678_7___rustc12___rust_alloc(ptr %p) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br label %loop
}

; Instrumented already, in an earlier step: not again.
; CHECK-LABEL: define void @again(
; CHECK-NOT: call void asm
; CHECK: br label %loop
define void @again(ptr %p) "curtail-instrumented" {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br label %loop
}

; vfork's child runs on this stack until it becomes another program: nothing may yield before that, and what it
; calls does not either.
; CHECK-LABEL: define void @spawn(
; CHECK: add i32 %{{[0-9]+}}, 1
; CHECK: call i32 @vfork()
; CHECK-NOT: curtail_safepoint_slow
; CHECK: add i32 %{{[0-9]+}}, -1
; CHECK: ret void
define void @spawn(ptr %p) {
  %child = call i32 @vfork()
  %is = icmp eq i32 %child, 0
  br i1 %is, label %loop, label %parent
loop:
  call void @unseen()
  br label %loop
parent:
  ret void
}
declare void @unseen()
declare i32 @vfork() returns_twice
