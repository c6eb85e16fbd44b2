; Straight-line code: short functions carry no safepoint, long ones as many as the bound asks for.
; RUN: CURTAIL_PASS=bound=200 opt -passes=curtail-safepoints -S < %s | FileCheck %s
; RUN: CURTAIL_PASS=bound=200,tls=initial opt -passes=curtail-safepoints -S < %s | FileCheck --check-prefix=SHARED %s

@cell = external global i64
declare void @unseen()

; CHECK-LABEL: define i64 @leaf(
; CHECK-NOT: curtail_safepoint
; CHECK: ret i64
define i64 @leaf(i64 %x) {
  %y = mul i64 %x, 3
  %z = add i64 %y, 1
  ret i64 %z
}

; Divisions cost more than they look: eight of them are past a quarter of the bound. In a shared object
; no constant says where the budget is.
; SHARED-LABEL: define i64 @dear(
; CHECK-LABEL: define i64 @dear(
; CHECK: [[SIGN:%.*]] = call i8 asm sideeffect "subq $${{[0-9]+}}, %fs:curtail_safepoint@TPOFF($1)", "={@ccs},r,~{memory},~{dirflag},~{fpsr},~{flags}"(i64 0)
; CHECK: [[DUE:%.*]] = trunc i8 [[SIGN]] to i1
; CHECK: br i1 [[DUE]], label %{{.*}}, label %{{.*}}, !prof [[RARE:![0-9]+]]
; SHARED: [[BLOCK:%.*]] = call {{.*}}ptr @llvm.threadlocal.address.p0(ptr {{.*}}@curtail_safepoint)
; SHARED: [[OLD:%.*]] = load i64, ptr [[BLOCK]], align 8
; SHARED: [[NEW:%.*]] = sub i64 [[OLD]], [[#]]
; SHARED: store i64 [[NEW]], ptr %{{.*}}, align 8
; SHARED: [[DUE:%.*]] = icmp slt i64 [[NEW]], 0
; SHARED: br i1 [[DUE]], label
; SHARED: call void asm sideeffect "call *curtail_safepoint_slow{{[_se]*}}@GOTPCREL(%rip)"
; CHECK: call void asm sideeffect "call curtail_safepoint_slow{{[_se]*}}", "~{memory},~{dirflag},~{fpsr},~{flags}"()
; CHECK-NOT: curtail_safepoint_slow
; CHECK: ret i64
define i64 @dear(i64 %x, i64 %y) {
  %1 = sdiv i64 %x, %y
  %2 = sdiv i64 %1, %y
  %3 = sdiv i64 %2, %y
  %4 = sdiv i64 %3, %y
  %5 = sdiv i64 %4, %y
  %6 = sdiv i64 %5, %y
  %7 = sdiv i64 %6, %y
  %8 = sdiv i64 %7, %y
  ret i64 %8
}

; A callee that this module sees and that has none counts as part of its caller.
; CHECK-LABEL: define i64 @two_leaves(
; CHECK-NOT: curtail_safepoint
; CHECK: ret i64
define i64 @two_leaves(i64 %x) {
  %1 = call i64 @leaf(i64 %x)
  %2 = call i64 @leaf(i64 %1)
  ret i64 %2
}

; A block that ends in `unreachable` carries none, however long.
; CHECK-LABEL: define i64 @panics(
; CHECK-NOT: curtail_safepoint
; CHECK: unreachable
define i64 @panics(i64 %x, i1 %bad) {
  br i1 %bad, label %panic, label %fine
panic:
  %1 = sdiv i64 1, %x
  %2 = sdiv i64 %1, %x
  %3 = sdiv i64 %2, %x
  %4 = sdiv i64 %3, %x
  %5 = sdiv i64 %4, %x
  %6 = sdiv i64 %5, %x
  %7 = sdiv i64 %6, %x
  store i64 %7, ptr @cell
  call void @unseen()
  unreachable
fine:
  ret i64 %x
}

; CHECK: [[RARE]] = !{!"branch_weights", i32 1, i32 1048576}
