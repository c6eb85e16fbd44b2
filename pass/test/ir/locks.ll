; Rust's locks: the depth is raised while one is held.
; RUN: CURTAIL_PASS=bound=200 opt -passes=curtail-safepoints -S < %s 2>/dev/null | FileCheck %s

declare void @_RNvMNtNtNtNtCs1234_3std3sys4sync5mutex5futexNtB2_5Mutex14lock_contended(ptr)
declare void @_RNvMNtNtNtNtCs1234_3std3sys4sync5mutex5futexNtB2_5Mutex4wake(ptr)
declare void @_RNvMNtNtNtNtCs1234_3std3sys4sync6rwlock5futexNtB2_6RwLock14read_contended(ptr)
declare void @_RNvMNtNtNtNtCs1234_3std3sys4sync6rwlock5futexNtB2_6RwLock22wake_writer_or_readers(ptr, i32)
declare void @_RNvMNtNtNtNtCs1234_3std3sys4sync4once5futexNtB2_4Once4call(ptr, i1, ptr, ptr)
declare zeroext i1 @_ZN11parking_lot9raw_mutex8RawMutex9lock_slow17h0123456789abcdefE(ptr, i64, i32)
declare void @_ZN11parking_lot9raw_mutex8RawMutex11unlock_slow17h0123456789abcdefE(ptr, i1)
declare zeroext i1 @_ZN11parking_lot7condvar7Condvar15notify_one_slow17h0123456789abcdefE(ptr, ptr)
declare void @unseen()
@mine = thread_local(localexec) global i64 0

; Raised before the compare-and-exchange that may take it, lowered where that fails, and raised again
; before the slow path, which takes it.
; CHECK-LABEL: define void @taken_without_line_tables(
; CHECK: [[UP:%.*]] = getelementptr inbounds i8, ptr {{%.*}}, i64 12
; CHECK: add i32 {{%.*}}, 1
; CHECK: store volatile i32 {{%.*}}, ptr [[UP]]
; CHECK: %x = cmpxchg ptr %m, i32 0, i32 1 acquire monotonic
; CHECK: br i1 %won, label %held, label %busy
; CHECK: busy:
; CHECK: add i32 {{%.*}}, -1
; CHECK: add i32 {{%.*}}, 1
; CHECK: call void @{{.*}}lock_contended(ptr %m)
; CHECK: held:
; CHECK-NOT: add i32
; CHECK: ret void
define void @taken_without_line_tables(ptr %m) {
  %x = cmpxchg ptr %m, i32 0, i32 1 acquire monotonic
  %won = extractvalue { i32, i1 } %x, 1
  br i1 %won, label %held, label %busy
busy:
  call void @_RNvMNtNtNtNtCs1234_3std3sys4sync5mutex5futexNtB2_5Mutex14lock_contended(ptr %m)
  br label %held
held:
  ret void
}

; Lowered right behind the release. The yield that fell due comes after the wake-up, and on the way
; around it.
; CHECK-LABEL: define void @given_back(
; CHECK: atomicrmw xchg ptr %m, i32 0 release
; CHECK: call i32 @llvm.usub.sat.i32(i32 {{%.*}}, i32 1)
; CHECK-NOT: curtail_safepoint_slow
; CHECK: br i1 %wanted, label %rouse, label %[[AROUND:.*]]
; CHECK: [[AROUND]]:
; CHECK: [[PENDING:%.*]] = getelementptr inbounds i8, ptr {{%.*}}, i64 16
; CHECK: [[SET:%.*]] = load volatile i32, ptr [[PENDING]]
; CHECK: icmp ugt i32 [[SET]],
; CHECK: call void asm sideeffect "call curtail_safepoint_slow{{.*}}"
; CHECK: rouse:
; CHECK: call void @{{.*}}wake(ptr %m)
; CHECK: getelementptr inbounds i8, ptr {{%.*}}, i64 16
; CHECK: call void asm sideeffect "call curtail_safepoint_slow{{.*}}"
; CHECK: ret void
define void @given_back(ptr %m) {
  %old = atomicrmw xchg ptr %m, i32 0 release
  %wanted = icmp eq i32 %old, 2
  br i1 %wanted, label %rouse, label %out
rouse:
  call void @_RNvMNtNtNtNtCs1234_3std3sys4sync5mutex5futexNtB2_5Mutex4wake(ptr %m)
  br label %out
out:
  ret void
}

; A try has no slow path: line tables tell. What fails is not counted, however it is used.
; CHECK-LABEL: define i1 @tried(
; CHECK: add i32 {{%.*}}, 1
; CHECK: %x = cmpxchg ptr %m, i32 0, i32 1 acquire monotonic
; CHECK: [[FAILED:%.*]] = xor i1 %won, true
; CHECK: [[BY:%.*]] = zext i1 [[FAILED]] to i32
; CHECK: [[DOWN:%.*]] = sub i32 0, [[BY]]
; CHECK: add i32 {{%.*}}, [[DOWN]]
; CHECK: ret i1 %won
define i1 @tried(ptr %m) !dbg !10 {
  %x = cmpxchg ptr %m, i32 0, i32 1 acquire monotonic, !dbg !21
  %won = extractvalue { i32, i1 } %x, 1, !dbg !21
  ret i1 %won, !dbg !22
}

; The same operation from elsewhere is no lock.
; CHECK-LABEL: define i1 @no_lock(
; CHECK-NOT: i64 12
; CHECK: ret i1
define i1 @no_lock(ptr %m) !dbg !11 {
  %x = cmpxchg ptr %m, i32 0, i32 1 acquire monotonic, !dbg !23
  %won = extractvalue { i32, i1 } %x, 1, !dbg !23
  ret i1 %won, !dbg !23
}

; A read lock: both ways into the slow path are counted once.
; CHECK-LABEL: define void @read_locked(
; CHECK: br i1 %free, label %fast, label %slow
; CHECK: fast:
; CHECK: add i32 {{%.*}}, 1
; CHECK: cmpxchg weak
; CHECK: br i1 %won, label %held, label %[[LOST:.*]]
; CHECK: [[LOST]]:
; CHECK: add i32 {{%.*}}, -1
; CHECK: slow:
; CHECK: add i32 {{%.*}}, 1
; CHECK: call void @{{.*}}read_contended(ptr %m)
; CHECK: atomicrmw sub ptr %m, i32 1 release
; CHECK: call i32 @llvm.usub.sat.i32(
; CHECK: ret void
define void @read_locked(ptr %m) {
  %state = load atomic i32, ptr %m monotonic, align 4
  %free = icmp ult i32 %state, 1073741822
  br i1 %free, label %fast, label %slow
fast:
  %more = add i32 %state, 7
  %x = cmpxchg weak ptr %m, i32 %state, i32 %more acquire monotonic
  %won = extractvalue { i32, i1 } %x, 1
  br i1 %won, label %held, label %slow
slow:
  call void @_RNvMNtNtNtNtCs1234_3std3sys4sync6rwlock5futexNtB2_6RwLock14read_contended(ptr %m)
  br label %held
held:
  %old = atomicrmw sub ptr %m, i32 1 release
  %state2 = sub i32 %old, 1
  %last = icmp eq i32 %state2, -2147483648
  br i1 %last, label %rouse, label %out
rouse:
  call void @_RNvMNtNtNtNtCs1234_3std3sys4sync6rwlock5futexNtB2_6RwLock22wake_writer_or_readers(ptr %m, i32 %state2)
  br label %out
out:
  ret void
}

; parking_lot's slow path says whether it took the lock; its release may go through a slow path.
; CHECK-LABEL: define void @parked(
; CHECK: cmpxchg weak ptr %m, i8 0, i8 1 acquire monotonic
; CHECK: add i32 {{%.*}}, 1
; CHECK: %got = call zeroext i1 @{{.*}}lock_slow{{.*}}(ptr %m
; CHECK: xor i1 %got, true
; CHECK: cmpxchg ptr %m, i8 1, i8 0 release monotonic
; CHECK: [[FREE:%.*]] = zext i1 {{%.*}} to i32
; CHECK: call i32 @llvm.usub.sat.i32(i32 {{%.*}}, i32 [[FREE]])
; CHECK: call void @{{.*}}unlock_slow{{.*}}(ptr %m
; CHECK: call i32 @llvm.usub.sat.i32(i32 {{%.*}}, i32 1)
; CHECK: ret void
define void @parked(ptr %m) {
  %x = cmpxchg weak ptr %m, i8 0, i8 1 acquire monotonic
  %won = extractvalue { i8, i1 } %x, 1
  br i1 %won, label %held, label %busy
busy:
  %got = call zeroext i1 @_ZN11parking_lot9raw_mutex8RawMutex9lock_slow17h0123456789abcdefE(ptr %m, i64 0, i32 1000000000)
  br i1 %got, label %held, label %out
held:
  %y = cmpxchg ptr %m, i8 1, i8 0 release monotonic
  %freed = extractvalue { i8, i1 } %y, 1
  br i1 %freed, label %out, label %parked
parked:
  call void @_ZN11parking_lot9raw_mutex8RawMutex11unlock_slow17h0123456789abcdefE(ptr %m, i1 false)
  br label %out
out:
  ret void
}

; Others may wait for an initialiser, and for parking_lot's queues.
; CHECK-LABEL: define void @within(
; CHECK: add i32 {{%.*}}, 1
; CHECK: call void @{{.*}}Once4call(
; CHECK: add i32 {{%.*}}, -1
; CHECK: add i32 {{%.*}}, 1
; CHECK: call zeroext i1 @{{.*}}notify_one_slow
; CHECK: add i32 {{%.*}}, -1
; CHECK: ret void
define void @within(ptr %o) {
  call void @_RNvMNtNtNtNtCs1234_3std3sys4sync4once5futexNtB2_4Once4call(ptr %o, i1 false, ptr %o, ptr %o)
  %woke = call zeroext i1 @_ZN11parking_lot7condvar7Condvar15notify_one_slow17h0123456789abcdefE(ptr %o, ptr %o)
  ret void
}

; Held across a loop: its safepoint stays, and the depth keeps it from yielding.
; CHECK-LABEL: define void @held_in_loop(
; CHECK: add i32 {{%.*}}, 1
; CHECK: cmpxchg
; CHECK-DAG: call void asm sideeffect "call curtail_safepoint_slow{{[_se]*}}"
; CHECK-DAG: atomicrmw xchg ptr %m, i32 0 release
; CHECK: call i32 @llvm.usub.sat.i32(
; CHECK: ret void
define void @held_in_loop(ptr %m, i64 %n) !dbg !12 {
entry:
  %x = cmpxchg ptr %m, i32 0, i32 1 acquire monotonic, !dbg !24
  %won = extractvalue { i32, i1 } %x, 1, !dbg !24
  br i1 %won, label %loop, label %out, !dbg !25
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void @unseen(), !dbg !25
  %next = add i64 %i, 1, !dbg !25
  %done = icmp eq i64 %next, %n, !dbg !25
  br i1 %done, label %free, label %loop, !dbg !25
free:
  %old = atomicrmw xchg ptr %m, i32 0 release, !dbg !26
  br label %out, !dbg !25
out:
  ret void, !dbg !25
}

; No yield behind a release while a thread-local variable's address is live.
; CHECK-LABEL: define void @with_thread_local(
; CHECK: atomicrmw xchg ptr %m, i32 0 release
; CHECK: call i32 @llvm.usub.sat.i32(
; CHECK-NOT: curtail_safepoint_slow
; CHECK: store i64 1, ptr %p
define void @with_thread_local(ptr %m) !dbg !13 {
  %p = call ptr @llvm.threadlocal.address.p0(ptr @mine), !dbg !27
  %old = atomicrmw xchg ptr %m, i32 0 release, !dbg !28
  store i64 1, ptr %p, !dbg !27
  ret void, !dbg !27
}

; The re-entrant lock of stdout is taken in the library: its guard gives nothing back that was
; counted.
; CHECK-LABEL: define void @stdout_guard(
; CHECK-NOT: usub.sat
; CHECK: ret void
define void @stdout_guard(ptr %m) !dbg !14 {
  %old = atomicrmw xchg ptr %m, i32 0 release, !dbg !30
  ret void, !dbg !29
}

; Where nothing was inlined, the calls count.
; CHECK-LABEL: define i1 @unoptimised(
; CHECK: add i32 {{%.*}}, 1
; CHECK: [[GOT:%.*]] = call i1 @{{.*}}try_lock(ptr %m)
; CHECK: xor i1 [[GOT]], true
; CHECK: call void @{{.*}}unlock(ptr %m)
; CHECK: call i32 @llvm.usub.sat.i32(i32 {{%.*}}, i32 1)
; CHECK: ret i1
define i1 @unoptimised(ptr %m) {
  %got = call i1 @_RNvMNtNtNtNtCs1234_3std3sys4sync5mutex5futexNtB2_5Mutex8try_lock(ptr %m)
  br i1 %got, label %held, label %out
held:
  call void @_RNvMNtNtNtNtCs1234_3std3sys4sync5mutex5futexNtB2_5Mutex6unlock(ptr %m)
  br label %out
out:
  ret i1 %got
}

; The lock's own code is left alone.
; CHECK-LABEL: define i1 @_RNvMNtNtNtNtCs1234_3std3sys4sync5mutex5futexNtB2_5Mutex8try_lock(
; CHECK-NOT: @curtail_safepoint
; CHECK: ret i1
define i1 @_RNvMNtNtNtNtCs1234_3std3sys4sync5mutex5futexNtB2_5Mutex8try_lock(ptr %m) {
  %x = cmpxchg ptr %m, i32 0, i32 1 acquire monotonic
  %won = extractvalue { i32, i1 } %x, 1
  ret i1 %won
}
declare void @_RNvMNtNtNtNtCs1234_3std3sys4sync5mutex5futexNtB2_5Mutex6unlock(ptr)

!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2}
!0 = distinct !DICompileUnit(language: DW_LANG_Rust, file: !1, emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "x.rs", directory: "/")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = !DISubroutineType(types: !{})
!10 = distinct !DISubprogram(name: "tried", scope: !1, file: !1, line: 1, type: !3, spFlags: DISPFlagDefinition, unit: !0)
!11 = distinct !DISubprogram(name: "no_lock", scope: !1, file: !1, line: 1, type: !3, spFlags: DISPFlagDefinition, unit: !0)
!12 = distinct !DISubprogram(name: "held_in_loop", scope: !1, file: !1, line: 1, type: !3, spFlags: DISPFlagDefinition, unit: !0)
!13 = distinct !DISubprogram(name: "with_thread_local", scope: !1, file: !1, line: 1, type: !3, spFlags: DISPFlagDefinition, unit: !0)
!14 = distinct !DISubprogram(name: "stdout_guard", scope: !1, file: !1, line: 1, type: !3, spFlags: DISPFlagDefinition, unit: !0)
!15 = distinct !DISubprogram(name: "try_lock", linkageName: "_RNvMNtNtNtNtCs1234_3std3sys4sync5mutex5futexNtB2_5Mutex8try_lock", scope: !1, file: !1, line: 9, type: !3, spFlags: DISPFlagDefinition, unit: !0)
!16 = distinct !DISubprogram(name: "unlock", linkageName: "_RNvMNtNtNtNtCs1234_3std3sys4sync5mutex5futexNtB2_5Mutex6unlock", scope: !1, file: !1, line: 9, type: !3, spFlags: DISPFlagDefinition, unit: !0)
!17 = distinct !DISubprogram(name: "drop<std::io::stdio::StdoutRaw>", linkageName: "_ZN96_$LT$std..sync..reentrant_lock..ReentrantLockGuard$LT$T$GT$$u20$as$u20$core..ops..drop..Drop$GT$4drop17h0123456789abcdefE", scope: !1, file: !1, line: 9, type: !3, spFlags: DISPFlagDefinition, unit: !0)
!18 = distinct !DISubprogram(name: "compare_exchange", linkageName: "_RNvMs_NtNtCs1_4core4sync6atomicNtB4_9AtomicU3216compare_exchange", scope: !1, file: !1, line: 9, type: !3, spFlags: DISPFlagDefinition, unit: !0)
!21 = !DILocation(line: 9, scope: !18, inlinedAt: !31)
!22 = !DILocation(line: 2, scope: !10)
!23 = !DILocation(line: 2, scope: !11)
!24 = !DILocation(line: 9, scope: !15, inlinedAt: !25)
!25 = distinct !DILocation(line: 2, scope: !12)
!26 = !DILocation(line: 9, scope: !16, inlinedAt: !25)
!27 = distinct !DILocation(line: 2, scope: !13)
!28 = !DILocation(line: 9, scope: !16, inlinedAt: !27)
!29 = distinct !DILocation(line: 2, scope: !14)
!30 = !DILocation(line: 9, scope: !16, inlinedAt: !32)
!31 = distinct !DILocation(line: 9, scope: !15, inlinedAt: !22)
!32 = distinct !DILocation(line: 9, scope: !17, inlinedAt: !29)
