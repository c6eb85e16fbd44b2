; Kind flag: one look at the poll word, with no charge; x87 registers are given up where there are
; any; shared objects go through the global offset table.
; RUN: CURTAIL_PASS=kind=flag,tls=initial opt -passes=curtail-safepoints -S < %s | FileCheck %s
; RUN: CURTAIL_PASS=kind=none opt -passes=curtail-safepoints -S < %s | FileCheck --check-prefix=NONE %s
; RUN: CURTAIL_PASS=bund=3 not opt -passes=curtail-safepoints -S < %s 2>&1 | FileCheck --check-prefix=WRONG %s
; NONE-NOT: curtail_safepoint
; WRONG: unknown key 'bund'

; CHECK: @curtail_safepoint = external thread_local(initialexec) global

; CHECK-LABEL: define void @poll(
; CHECK: [[WORD:%.*]] = getelementptr inbounds i8, ptr {{%.*}}, i64 8
; CHECK: [[SET:%.*]] = load volatile i32, ptr [[WORD]], align 4
; CHECK: icmp ne i32 [[SET]], 0
; CHECK: call void asm sideeffect "call *curtail_safepoint_slow{{[_se]*}}@GOTPCREL(%rip)", "~{memory},~{dirflag},~{fpsr},~{flags}"()
; CHECK-NOT: {{sub i64|subq}}
define void @poll(ptr %p) {
  br label %loop
loop:
  store volatile i64 1, ptr %p
  br label %loop
}

; CHECK-LABEL: define void @long_double(
; CHECK: call void asm sideeffect {{.*}}~{st},~{st(1)},{{.*}}~{st(7)}
define void @long_double(ptr %p) {
entry:
  br label %loop
loop:
  %x = phi x86_fp80 [ 0xK3FFF8000000000000000, %entry ], [ %y, %loop ]
  %y = fadd x86_fp80 %x, %x
  store volatile x86_fp80 %y, ptr %p
  br label %loop
}
