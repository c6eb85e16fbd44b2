; The dispatch of an interpreter that is a switch: the safepoint lies at its end, behind what fetches and
; counts on, and charges all that comes back to it.
; RUN: CURTAIL_PASS=bound=400 opt -passes=curtail-safepoints,verify -S < %s | FileCheck %s
; RUN: CURTAIL_PASS=bound=100 opt -passes=curtail-safepoints,verify -S < %s | FileCheck --check-prefix=TIGHT %s

; CHECK-LABEL: define i64 @run(
; CHECK: dispatch:
; CHECK-NEXT: %pc = phi
; CHECK-NEXT: %acc = phi
; CHECK-NEXT: %op = load
; CHECK-NEXT: %next = getelementptr
; CHECK-NEXT: call i8 asm sideeffect "subq $$14, %fs:curtail_safepoint@TPOFF
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: switch i64 %op
; CHECK-NOT: curtail_safepoint_slow
; CHECK: ret i64
declare void @unseen()

define i64 @run(ptr %code) {
entry:
  br label %dispatch
dispatch:
  %pc = phi ptr [ %code, %entry ], [ %next, %add ], [ %next, %sub ], [ %jump, %go ]
  %acc = phi i64 [ 0, %entry ], [ %more, %add ], [ %less, %sub ], [ %acc, %go ]
  %op = load i64, ptr %pc
  %next = getelementptr i64, ptr %pc, i64 1
  switch i64 %op, label %halt [
    i64 0, label %add
    i64 1, label %sub
    i64 2, label %go
  ]
add:
  call void @unseen()
  %more = add i64 %acc, 3
  br label %dispatch
sub:
  call void @unseen()
  %less = sub i64 %acc, 1
  br label %dispatch
go:
  call void @unseen()
  %offset = load i64, ptr %next
  %jump = getelementptr i64, ptr %pc, i64 %offset
  br label %dispatch
halt:
  ret i64 %acc
}

; Between the top and the switch the address of a thread-local variable comes into use: no place there.
; CHECK-LABEL: define i64 @held(
; CHECK: dispatch:
; CHECK-NEXT: %acc = phi
; CHECK-NEXT: {{%.*}} = call i8 asm sideeffect "subq
; CHECK: %mine = call ptr @llvm.threadlocal.address
; CHECK-NEXT: %op = load
; CHECK-NEXT: switch
; CHECK: ret i64
@own = thread_local(localexec) global i64 0
declare nonnull ptr @llvm.threadlocal.address.p0(ptr nonnull)

define i64 @held(ptr %code) {
entry:
  br label %dispatch
dispatch:
  %acc = phi i64 [ 0, %entry ], [ %more, %add ], [ %acc, %skip ]
  %mine = call ptr @llvm.threadlocal.address.p0(ptr @own)
  %op = load volatile i64, ptr %code
  switch i64 %op, label %halt [
    i64 0, label %add
    i64 1, label %skip
  ]
add:
  %value = atomicrmw add ptr %mine, i64 1 monotonic
  %more = add i64 %acc, %value
  call void @unseen()
  br label %dispatch
skip:
  call void @unseen()
  br label %dispatch
halt:
  ret i64 %acc
}

; Where the longest way back and what lies before the switch are more than the bound, it is at the top.
; CHECK-LABEL: define i64 @full(
; CHECK: %op = load
; CHECK-NOT: {{%.*}} = mul
; CHECK: subq
; CHECK: switch
; TIGHT-LABEL: define i64 @full(
; TIGHT-NOT: %op = load
; TIGHT: subq
; TIGHT: %op = load
; TIGHT-NEXT: switch
define i64 @full(ptr %code) {
entry:
  br label %dispatch
dispatch:
  %acc = phi i64 [ 0, %entry ], [ %a97, %go ]
  %op = load volatile i64, ptr %code
  switch i64 %op, label %halt [
    i64 0, label %go
  ]
go:
  %a0 = mul i64 %acc, 5
  %a1 = mul i64 %a0, 5
  %a2 = mul i64 %a1, 5
  %a3 = mul i64 %a2, 5
  %a4 = mul i64 %a3, 5
  %a5 = mul i64 %a4, 5
  %a6 = mul i64 %a5, 5
  %a7 = mul i64 %a6, 5
  %a8 = mul i64 %a7, 5
  %a9 = mul i64 %a8, 5
  %a10 = mul i64 %a9, 5
  %a11 = mul i64 %a10, 5
  %a12 = mul i64 %a11, 5
  %a13 = mul i64 %a12, 5
  %a14 = mul i64 %a13, 5
  %a15 = mul i64 %a14, 5
  %a16 = mul i64 %a15, 5
  %a17 = mul i64 %a16, 5
  %a18 = mul i64 %a17, 5
  %a19 = mul i64 %a18, 5
  %a20 = mul i64 %a19, 5
  %a21 = mul i64 %a20, 5
  %a22 = mul i64 %a21, 5
  %a23 = mul i64 %a22, 5
  %a24 = mul i64 %a23, 5
  %a25 = mul i64 %a24, 5
  %a26 = mul i64 %a25, 5
  %a27 = mul i64 %a26, 5
  %a28 = mul i64 %a27, 5
  %a29 = mul i64 %a28, 5
  %a30 = mul i64 %a29, 5
  %a31 = mul i64 %a30, 5
  %a32 = mul i64 %a31, 5
  %a33 = mul i64 %a32, 5
  %a34 = mul i64 %a33, 5
  %a35 = mul i64 %a34, 5
  %a36 = mul i64 %a35, 5
  %a37 = mul i64 %a36, 5
  %a38 = mul i64 %a37, 5
  %a39 = mul i64 %a38, 5
  %a40 = mul i64 %a39, 5
  %a41 = mul i64 %a40, 5
  %a42 = mul i64 %a41, 5
  %a43 = mul i64 %a42, 5
  %a44 = mul i64 %a43, 5
  %a45 = mul i64 %a44, 5
  %a46 = mul i64 %a45, 5
  %a47 = mul i64 %a46, 5
  %a48 = mul i64 %a47, 5
  %a49 = mul i64 %a48, 5
  %a50 = mul i64 %a49, 5
  %a51 = mul i64 %a50, 5
  %a52 = mul i64 %a51, 5
  %a53 = mul i64 %a52, 5
  %a54 = mul i64 %a53, 5
  %a55 = mul i64 %a54, 5
  %a56 = mul i64 %a55, 5
  %a57 = mul i64 %a56, 5
  %a58 = mul i64 %a57, 5
  %a59 = mul i64 %a58, 5
  %a60 = mul i64 %a59, 5
  %a61 = mul i64 %a60, 5
  %a62 = mul i64 %a61, 5
  %a63 = mul i64 %a62, 5
  %a64 = mul i64 %a63, 5
  %a65 = mul i64 %a64, 5
  %a66 = mul i64 %a65, 5
  %a67 = mul i64 %a66, 5
  %a68 = mul i64 %a67, 5
  %a69 = mul i64 %a68, 5
  %a70 = mul i64 %a69, 5
  %a71 = mul i64 %a70, 5
  %a72 = mul i64 %a71, 5
  %a73 = mul i64 %a72, 5
  %a74 = mul i64 %a73, 5
  %a75 = mul i64 %a74, 5
  %a76 = mul i64 %a75, 5
  %a77 = mul i64 %a76, 5
  %a78 = mul i64 %a77, 5
  %a79 = mul i64 %a78, 5
  %a80 = mul i64 %a79, 5
  %a81 = mul i64 %a80, 5
  %a82 = mul i64 %a81, 5
  %a83 = mul i64 %a82, 5
  %a84 = mul i64 %a83, 5
  %a85 = mul i64 %a84, 5
  %a86 = mul i64 %a85, 5
  %a87 = mul i64 %a86, 5
  %a88 = mul i64 %a87, 5
  %a89 = mul i64 %a88, 5
  %a90 = mul i64 %a89, 5
  %a91 = mul i64 %a90, 5
  %a92 = mul i64 %a91, 5
  %a93 = mul i64 %a92, 5
  %a94 = mul i64 %a93, 5
  %a95 = mul i64 %a94, 5
  %a96 = mul i64 %a95, 5
  %a97 = mul i64 %a96, 5
  br label %dispatch
halt:
  ret i64 %acc
}

; Where what lies before the switch needs a safepoint of its own, for those who come in, one at the top
; does for both.
; TIGHT-LABEL: define i64 @long(
; TIGHT: dispatch:
; TIGHT-NEXT: %acc = phi
; TIGHT-NEXT: {{%.*}} = call i8 asm sideeffect "subq
; TIGHT-NOT: subq
; TIGHT: halt:
define i64 @long(i64 %first) {
entry:
  br label %dispatch
dispatch:
  %acc = phi i64 [ %first, %entry ], [ %more, %add ], [ %less, %sub ]
  %h0 = mul i64 %acc, 3
  %h1 = mul i64 %h0, 3
  %h2 = mul i64 %h1, 3
  %h3 = mul i64 %h2, 3
  %h4 = mul i64 %h3, 3
  %h5 = mul i64 %h4, 3
  %h6 = mul i64 %h5, 3
  %h7 = mul i64 %h6, 3
  %h8 = mul i64 %h7, 3
  %h9 = mul i64 %h8, 3
  %h10 = mul i64 %h9, 3
  %h11 = mul i64 %h10, 3
  %h12 = mul i64 %h11, 3
  %h13 = mul i64 %h12, 3
  %h14 = mul i64 %h13, 3
  %h15 = mul i64 %h14, 3
  %h16 = mul i64 %h15, 3
  %h17 = mul i64 %h16, 3
  %h18 = mul i64 %h17, 3
  %h19 = mul i64 %h18, 3
  %h20 = mul i64 %h19, 3
  %h21 = mul i64 %h20, 3
  %h22 = mul i64 %h21, 3
  %h23 = mul i64 %h22, 3
  %h24 = mul i64 %h23, 3
  %h25 = mul i64 %h24, 3
  %h26 = mul i64 %h25, 3
  %h27 = mul i64 %h26, 3
  %h28 = mul i64 %h27, 3
  %h29 = mul i64 %h28, 3
  %h30 = mul i64 %h29, 3
  %h31 = mul i64 %h30, 3
  %h32 = mul i64 %h31, 3
  %h33 = mul i64 %h32, 3
  %h34 = mul i64 %h33, 3
  %h35 = mul i64 %h34, 3
  %h36 = mul i64 %h35, 3
  %h37 = mul i64 %h36, 3
  %h38 = mul i64 %h37, 3
  %h39 = mul i64 %h38, 3
  %h40 = mul i64 %h39, 3
  %h41 = mul i64 %h40, 3
  %h42 = mul i64 %h41, 3
  %h43 = mul i64 %h42, 3
  %h44 = mul i64 %h43, 3
  %h45 = mul i64 %h44, 3
  %h46 = mul i64 %h45, 3
  %h47 = mul i64 %h46, 3
  %h48 = mul i64 %h47, 3
  %h49 = mul i64 %h48, 3
  %h50 = mul i64 %h49, 3
  %h51 = mul i64 %h50, 3
  %h52 = mul i64 %h51, 3
  %h53 = mul i64 %h52, 3
  %h54 = mul i64 %h53, 3
  %h55 = mul i64 %h54, 3
  %h56 = mul i64 %h55, 3
  %h57 = mul i64 %h56, 3
  %h58 = mul i64 %h57, 3
  %h59 = mul i64 %h58, 3
  %h60 = mul i64 %h59, 3
  %h61 = mul i64 %h60, 3
  %h62 = mul i64 %h61, 3
  %h63 = mul i64 %h62, 3
  %h64 = mul i64 %h63, 3
  %h65 = mul i64 %h64, 3
  %h66 = mul i64 %h65, 3
  %h67 = mul i64 %h66, 3
  %h68 = mul i64 %h67, 3
  %h69 = mul i64 %h68, 3
  switch i64 %h69, label %halt [
    i64 0, label %add
    i64 1, label %sub
  ]
add:
  %more = add i64 %h69, 1
  br label %dispatch
sub:
  %less = sub i64 %h69, 1
  br label %dispatch
halt:
  ret i64 %acc
}
