; What curtail-verify is told of functions and of loops without a safepoint; and that the notes reach
; the object, in front of the loop.
; RUN: CURTAIL_PASS=bound=300 opt -passes=curtail-safepoints -S < %s | FileCheck %s
; RUN: CURTAIL_PASS=bound=300 opt -passes=curtail-safepoints < %s | llc -O2 -relocation-model=pic | FileCheck --check-prefix=ASM %s

target triple = "x86_64-unknown-linux-gnu"

; A short loop: its note stands before it, and nothing in it.
; CHECK-LABEL: define i64 @short(
; CHECK-SAME: !pcsections [[BOUND:![0-9]+]]
; CHECK: call void asm sideeffect "77:\0A.pushsection .curtail.loops,\22?\22,@progbits\0A.quad 77b\0A.quad 5\0A.long {{[0-9]+}}\0A.short 1\0A.byte 1\0A.byte 1\0A.popsection", ""()
; CHECK-NEXT: br label %loop
; CHECK: loop:
; CHECK-NOT: asm
; CHECK: ret i64
; ASM-LABEL: short:
; ASM: .section .curtail.loops,"",@progbits
; ASM-NEXT: .quad [[PLACE:.*]]
; ASM-NEXT: .quad 5
; ASM: .section .curtail.functions,"awo",@progbits,.text
; ASM: .long .Lfunc_begin0-.Lpcsection_base0
; ASM-NEXT: .long .Lfunc_end0-.Lfunc_begin0
; ASM-NEXT: .long 76800
define i64 @short(ptr %p) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %sum = phi i64 [ 0, %entry ], [ %more, %loop ]
  %q = getelementptr i64, ptr %p, i64 %i
  %x = load volatile i64, ptr %q
  %more = add i64 %sum, %x
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, 5
  br i1 %done, label %exit, label %loop
exit:
  ret i64 %more
}

; A loop with a safepoint needs no note; the function's section group takes what there is along.
; CHECK-LABEL: define linkonce_odr void @long(
; CHECK-NOT: .curtail.loops
; CHECK: curtail_safepoint_slow
; ASM: .section .curtail.functions,"awoG",@progbits,.text.long,long,comdat
$long = comdat any
define linkonce_odr void @long(ptr %p) comdat {
entry:
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br label %loop
}

; Left alone, and why: an allocator.
; CHECK-LABEL: define void @je_purge(
; CHECK-SAME: !pcsections [[WHY:![0-9]+]]
define void @je_purge() {
  ret void
}

; CHECK-DAG: [[BOUND]] = !{!".curtail.functions", [[WORD:![0-9]+]]}
; CHECK-DAG: [[WORD]] = !{i32 76800}
; CHECK-DAG: [[WHY]] = !{!".curtail.functions", [[REASON:![0-9]+]]}
; CHECK-DAG: [[REASON]] = !{i32 4}
