; Calls of the C library that may last long go to the runtime, which does them in pieces.
; RUN: opt -passes=curtail-safepoints -S < %s | FileCheck %s
; RUN: CURTAIL_PASS=kind=flag opt -passes=curtail-safepoints -S < %s | FileCheck --check-prefix=FLAG %s
; RUN: CURTAIL_PASS=kind=rdtsc opt -passes=curtail-safepoints -S < %s | FileCheck --check-prefix=READS %s
; READS-NOT: curtail_mem
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-unknown-linux-gnu"

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memcpy.inline.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memmove.p0.p0.i32(ptr, ptr, i32, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i32 @memcmp(ptr, ptr, i64)
declare i32 @bcmp(ptr, ptr, i64)
declare ptr @memchr(ptr, i32, i64)
declare i64 @strlen(ptr)
declare ptr @strchr(ptr, i32)
declare void @seen(ptr)
declare ptr @llvm.threadlocal.address.p0(ptr)
declare i32 @__gxx_personality_v0(...)
@mine = thread_local global [65536 x i8] zeroinitializer
@small = internal global [512 x i8] zeroinitializer
@large = internal global [65536 x i8] zeroinitializer

; Of unknown length: one comparison, and the call as it was if it is short.
; CHECK-LABEL: define void @copy(
; CHECK-NEXT: [[LONG:%.*]] = icmp ugt i64 %n, 1024
; CHECK-NEXT: br i1 [[LONG]], label %[[APART:.*]], label %[[PLAIN:.*]], !prof
; CHECK: [[APART]]:
; CHECK-NEXT: call ptr @curtail_memcpy(ptr %to, ptr %from, i64 %n)
; CHECK-NEXT: br label %[[BEHIND:.*]]
; CHECK: [[PLAIN]]:
; CHECK-NEXT: call void @llvm.memcpy.p0.p0.i64(
; CHECK-NEXT: br label %[[BEHIND]]
; CHECK: [[BEHIND]]:
; CHECK-NEXT: ret void
; FLAG-LABEL: define void @copy(
; FLAG: call ptr @curtail_memcpy(
define void @copy(ptr %to, ptr %from, i64 %n) {
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)
  ret void
}

; Lengths of 32 bits, and the byte of a memset, as C has them.
; CHECK-LABEL: define void @others(
; CHECK: icmp ugt i32 %k, 1024
; CHECK: [[K:%.*]] = zext i32 %k to i64
; CHECK-NEXT: call ptr @curtail_memmove(ptr %to, ptr %from, i64 [[K]])
; CHECK: [[C:%.*]] = zext i8 %c to i32
; CHECK-NEXT: call ptr @curtail_memset(ptr %to, i32 [[C]], i64 %n)
define void @others(ptr %to, ptr %from, i32 %k, i8 %c, i64 %n) {
  call void @llvm.memmove.p0.p0.i32(ptr %to, ptr %from, i32 %k, i1 false)
  call void @llvm.memset.p0.i64(ptr %to, i8 %c, i64 %n, i1 false)
  ret void
}

; The result is one of two.
; CHECK-LABEL: define i1 @equal(
; CHECK: [[A:%.*]] = call i32 @curtail_memcmp(ptr %a, ptr %b, i64 %n)
; CHECK: [[B:%.*]] = {{.*}}call i32 @bcmp(ptr %a, ptr %b, i64 %n)
; CHECK: [[R:%.*]] = phi i32 [ [[A]], {{.*}} ], [ [[B]], {{.*}} ]
; CHECK: icmp eq i32 [[R]], 0
define i1 @equal(ptr %a, ptr %b, i64 %n) {
  %r = tail call i32 @bcmp(ptr %a, ptr %b, i64 %n)
  %e = icmp eq i32 %r, 0
  ret i1 %e
}

; Whether two are equal may take all of them, which is less does not.
; CHECK-LABEL: define i32 @order(
; CHECK: call i32 @curtail_memcmp(ptr %b, ptr %a, i64 %n)
; CHECK: call i32 @memcmp(ptr %b, ptr %a, i64 %n)
; CHECK-NOT: curtail_memcmp
; CHECK: ret i32
define i32 @order(ptr %a, ptr %b, i64 %n) {
  %e = call i32 @memcmp(ptr %b, ptr %a, i64 %n)
  %same = icmp eq i32 %e, 0
  %r = call i32 @memcmp(ptr %a, ptr %b, i64 %n)
  %s = select i1 %same, i32 0, i32 %r
  ret i32 %s
}

; Debug information about the result stays behind it.
; CHECK-LABEL: define i64 @debugged(
; CHECK: [[N:%.*]] = phi i64
; CHECK-NEXT: #dbg_value(i64 [[N]],
define i64 @debugged(ptr %s) !dbg !5 {
  %n = call i64 @strlen(ptr %s), !dbg !8
    #dbg_value(i64 %n, !7, !DIExpression(), !8)
  %m = add i64 %n, 1, !dbg !8
  ret i64 %m, !dbg !8
}

; Searches end anywhere: to the runtime whenever something is armed.
; CHECK-LABEL: define i64 @searches(
; CHECK: [[MODE:%.*]] = load i32, ptr
; CHECK-NEXT: [[ARMED:%.*]] = icmp ne i32 [[MODE]], 0
; CHECK-NEXT: br i1 [[ARMED]]
; CHECK: call i64 @curtail_strlen(ptr %s)
; CHECK: call i64 @strlen(ptr %s)
; CHECK: icmp ne i32
; CHECK: call ptr @curtail_strchr(ptr %s, i32 65)
; CHECK: icmp ne i32
; CHECK: call ptr @curtail_memchr(ptr {{.*}}, i32 66, i64
define i64 @searches(ptr %s) {
  %n = call i64 @strlen(ptr %s)
  %c = call ptr @strchr(ptr %s, i32 65)
  %e = call ptr @memchr(ptr %c, i32 66, i64 %n)
  %i = ptrtoint ptr %e to i64
  ret i64 %i
}

; A long constant needs no comparison, and none of its length is charged in the caller.
; CHECK-LABEL: define void @constant(
; CHECK-NEXT: call ptr @curtail_memcpy(ptr %to, ptr %from, i64 50000)
; CHECK-NEXT: ret void
define void @constant(ptr %to, ptr %from) {
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 50000, i1 false)
  ret void
}

; Short: by a constant, by the length's range, by the size of what it touches.
; CHECK-LABEL: define void @short(
; CHECK-NOT: curtail_mem
; CHECK: ret void
define void @short(ptr %to, ptr %from, i64 %n) {
  %part = and i64 %n, 1023
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 8192, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %part, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr @small, i64 %n, i1 false)
  call void @llvm.memset.p0.i64(ptr @small, i8 0, i64 %n, i1 false)
  %l = call i64 @strlen(ptr @small)
  ret void
}
; CHECK-LABEL: define void @clear(
; CHECK: curtail_memset
define void @clear(i64 %n) {
  call void @llvm.memset.p0.i64(ptr @large, i8 0, i64 %n, i1 false)
  ret void
}

; What has to be as it is: volatile, in line, not the library's, last.
; CHECK-LABEL: define ptr @kept(
; CHECK-NOT: curtail_mem
; CHECK: ret ptr
define ptr @kept(ptr %to, ptr %from, i64 %n) {
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 true)
  call void @llvm.memcpy.inline.p0.p0.i64(ptr %to, ptr %from, i64 20000, i1 false)
  %x = call ptr @memchr(ptr %to, i32 0, i64 %n) nobuiltin
  %p = musttail call ptr @kept(ptr %to, ptr %from, i64 %n)
  ret ptr %p
}

; Where no safepoint may be: functions that are left out, ways that end.
; CHECK-LABEL: define ptr @malloc(
; CHECK-NOT: curtail_mem
; CHECK: ret ptr
define ptr @malloc(i64 %n) {
  call void @llvm.memset.p0.i64(ptr @large, i8 0, i64 %n, i1 false)
  ret ptr @large
}
; CHECK-LABEL: define void @cold(
; CHECK-NOT: curtail_mem
; CHECK: unreachable
define void @cold(ptr %to, ptr %from, i64 %n) {
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)
  unreachable
}

; In a loop.
; CHECK-LABEL: define void @nest(
; CHECK: icmp ugt i64 %{{.*}}, 1024
; CHECK: call ptr @curtail_memcpy(
; CHECK: ret void
define void @nest(ptr %list) {
entry:
  br label %loop
loop:
  %at = phi ptr [ %list, %entry ], [ %next, %loop ]
  %slot = getelementptr i64, ptr %at, i64 1
  %n = load i64, ptr %slot
  %data = getelementptr i64, ptr %at, i64 2
  %to = load ptr, ptr %data
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %data, i64 %n, i1 false)
  %next = load ptr, ptr %at
  %end = icmp eq ptr %next, null
  br i1 %end, label %done, label %loop
done:
  ret void
}

; A caller of such a function counts it as one that may yield.
; CHECK-LABEL: define void @caller(
; CHECK: loop:
; CHECK: call void asm sideeffect "call curtail_safepoint_slow
; CHECK: call void @copy(
define void @caller(ptr %list, ptr %to, i64 %n) {
entry:
  br label %loop
loop:
  %at = phi ptr [ %list, %entry ], [ %next, %loop ]
  call void @copy(ptr %to, ptr %at, i64 %n)
  %next = load ptr, ptr %at
  %end = icmp eq ptr %next, null
  br i1 %end, label %done, label %loop
done:
  ret void
}

; A loop that counts to the length of a string: what is computed before it stays valid.
; CHECK-LABEL: define void @upto(
; CHECK: call i64 @curtail_strlen(
; CHECK: [[N:%.*]] = phi i64
; CHECK: ret void
define void @upto(ptr %s, ptr %to) {
entry:
  %n = call i64 @strlen(ptr %s)
  br label %loop
loop:
  %i = phi i64 [ %n, %entry ], [ %less, %loop ]
  %p = getelementptr i64, ptr %to, i64 %i
  store i64 %i, ptr %p
  %less = add i64 %i, -1
  %end = icmp eq i64 %less, 0
  br i1 %end, label %done, label %loop
done:
  ret void
}

!llvm.module.flags = !{!0}
!llvm.dbg.cu = !{!1}
!0 = !{i32 2, !"Debug Info Version", i32 3}
!1 = distinct !DICompileUnit(language: DW_LANG_C11, file: !2, isOptimized: true, emissionKind: FullDebug)
!2 = !DIFile(filename: "a.c", directory: "/")
!3 = !DISubroutineType(types: !4)
!4 = !{}
!5 = distinct !DISubprogram(name: "debugged", file: !2, line: 1, type: !3, unit: !1, spFlags: DISPFlagDefinition)
!6 = !DIBasicType(name: "long", size: 64, encoding: DW_ATE_signed)
!7 = !DILocalVariable(name: "n", scope: !5, file: !2, line: 2, type: !6)
!8 = !DILocation(line: 2, scope: !5)
