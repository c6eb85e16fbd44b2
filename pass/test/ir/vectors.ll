; An operation on vectors counts as many as the registers that they take. (The bound is 200.)
; RUN: CURTAIL_PASS=bound=200 opt -passes=curtail-safepoints -S < %s | FileCheck %s

target triple = "x86_64-unknown-linux-gnu"

; Sixteen times 32 bits are four registers of 128 bits, so these twenty lines are eighty operations,
; more than may lie before a return.
; CHECK-LABEL: define <16 x i32> @narrow(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: ret <16 x i32>
define <16 x i32> @narrow(<16 x i32> %a, <16 x i32> %b) #0 {
  %x0 = xor <16 x i32> %a, %b
  %x1 = add <16 x i32> %x0, %b
  %x2 = xor <16 x i32> %x1, %b
  %x3 = add <16 x i32> %x2, %b
  %x4 = xor <16 x i32> %x3, %b
  %x5 = add <16 x i32> %x4, %b
  %x6 = xor <16 x i32> %x5, %b
  %x7 = add <16 x i32> %x6, %b
  %x8 = xor <16 x i32> %x7, %b
  %x9 = add <16 x i32> %x8, %b
  %x10 = xor <16 x i32> %x9, %b
  %x11 = add <16 x i32> %x10, %b
  %x12 = xor <16 x i32> %x11, %b
  %x13 = add <16 x i32> %x12, %b
  %x14 = xor <16 x i32> %x13, %b
  %x15 = add <16 x i32> %x14, %b
  %x16 = xor <16 x i32> %x15, %b
  %x17 = add <16 x i32> %x16, %b
  %x18 = xor <16 x i32> %x17, %b
  %x19 = add <16 x i32> %x18, %b
  ret <16 x i32> %x19
}

; One register of 512 bits.
; CHECK-LABEL: define <16 x i32> @wide(
; CHECK-NOT: curtail_safepoint
; CHECK: ret <16 x i32>
define <16 x i32> @wide(<16 x i32> %a, <16 x i32> %b) #1 {
  %x0 = xor <16 x i32> %a, %b
  %x1 = add <16 x i32> %x0, %b
  %x2 = xor <16 x i32> %x1, %b
  %x3 = add <16 x i32> %x2, %b
  %x4 = xor <16 x i32> %x3, %b
  %x5 = add <16 x i32> %x4, %b
  %x6 = xor <16 x i32> %x5, %b
  %x7 = add <16 x i32> %x6, %b
  %x8 = xor <16 x i32> %x7, %b
  %x9 = add <16 x i32> %x8, %b
  %x10 = xor <16 x i32> %x9, %b
  %x11 = add <16 x i32> %x10, %b
  %x12 = xor <16 x i32> %x11, %b
  %x13 = add <16 x i32> %x12, %b
  %x14 = xor <16 x i32> %x13, %b
  %x15 = add <16 x i32> %x14, %b
  %x16 = xor <16 x i32> %x15, %b
  %x17 = add <16 x i32> %x16, %b
  %x18 = xor <16 x i32> %x17, %b
  %x19 = add <16 x i32> %x18, %b
  ret <16 x i32> %x19
}

; What a comparison takes counts, not the bits that it gives.
; CHECK-LABEL: define <16 x i1> @compared(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: ret <16 x i1>
define <16 x i1> @compared(<16 x i64> %a, <16 x i64> %b) #0 {
  %c0 = icmp sgt <16 x i64> %a, %b
  %d1 = icmp sgt <16 x i64> %a, %b
  %c1 = xor <16 x i1> %c0, %d1
  %d2 = icmp sgt <16 x i64> %a, %b
  %c2 = xor <16 x i1> %c1, %d2
  %d3 = icmp sgt <16 x i64> %a, %b
  %c3 = xor <16 x i1> %c2, %d3
  %d4 = icmp sgt <16 x i64> %a, %b
  %c4 = xor <16 x i1> %c3, %d4
  %d5 = icmp sgt <16 x i64> %a, %b
  %c5 = xor <16 x i1> %c4, %d5
  %d6 = icmp sgt <16 x i64> %a, %b
  %c6 = xor <16 x i1> %c5, %d6
  %d7 = icmp sgt <16 x i64> %a, %b
  %c7 = xor <16 x i1> %c6, %d7
  %d8 = icmp sgt <16 x i64> %a, %b
  %c8 = xor <16 x i1> %c7, %d8
  %d9 = icmp sgt <16 x i64> %a, %b
  %c9 = xor <16 x i1> %c8, %d9
  ret <16 x i1> %c9
}

; Integers are divided one by one.
; CHECK-LABEL: define <8 x i32> @divided(
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: ret <8 x i32>
define <8 x i32> @divided(<8 x i32> %a, <8 x i32> %b) #1 {
  %q = udiv <8 x i32> %a, %b
  ret <8 x i32> %q
}

attributes #0 = { "target-cpu"="x86-64" }
attributes #1 = { "target-cpu"="x86-64-v4" "prefer-vector-width"="512" }
