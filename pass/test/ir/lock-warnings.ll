; What cannot be told for sure is said.
; RUN: CURTAIL_PASS=bound=200 opt -passes=curtail-safepoints -disable-output %s 2>&1 | FileCheck %s
; RUN: CURTAIL_PASS=bound=200,report=/dev/stdout opt -passes=curtail-safepoints -disable-output %s 2>/dev/null | FileCheck %s --check-prefix=REPORT

; CHECK-DAG: warning: curtail: strange_take: a lock is taken in a way that is not known
; CHECK-DAG: warning: curtail: strange_give: a lock is given back in a way that is not known
; CHECK-DAG: warning: curtail: merged: taken to be a try_lock, by what follows
; CHECK-DAG: warning: curtail: {{.*}}: no line tables: a try_lock is not seen
; CHECK-NOT: warning: curtail: known
; REPORT-DAG: "function":"strange_take","lock_warning":"a lock is taken in a way that is not known"
; REPORT-DAG: "lock_warnings":4

declare void @_RNvMNtNtNtNtCs1234_3std3sys4sync5mutex5futexNtB2_5Mutex14lock_contended(ptr)
declare void @_RNvMNtNtNtNtCs1234_3std3sys4sync5mutex5futexNtB2_5Mutex4wake(ptr)

define void @strange_take(ptr %m) {
  %old = atomicrmw or ptr %m, i32 1 acquire
  %free = icmp eq i32 %old, 0
  br i1 %free, label %held, label %busy
busy:
  call void @_RNvMNtNtNtNtCs1234_3std3sys4sync5mutex5futexNtB2_5Mutex14lock_contended(ptr %m)
  br label %held
held:
  ret void
}

define void @strange_give(ptr %m) {
  store atomic i32 0, ptr %m release, align 4
  call void @_RNvMNtNtNtNtCs1234_3std3sys4sync5mutex5futexNtB2_5Mutex4wake(ptr %m)
  ret void
}

define void @merged(ptr %m) {
  %x = cmpxchg ptr %m, i32 0, i32 1 acquire monotonic
  %won = extractvalue { i32, i1 } %x, 1
  br i1 %won, label %held, label %out
held:
  %old = atomicrmw xchg ptr %m, i32 0 release
  %wanted = icmp eq i32 %old, 2
  br i1 %wanted, label %rouse, label %out
rouse:
  call void @_RNvMNtNtNtNtCs1234_3std3sys4sync5mutex5futexNtB2_5Mutex4wake(ptr %m)
  br label %out
out:
  ret void
}

define void @known(ptr %m) {
  %x = cmpxchg ptr %m, i32 0, i32 1 acquire monotonic
  %won = extractvalue { i32, i1 } %x, 1
  br i1 %won, label %held, label %busy
busy:
  call void @_RNvMNtNtNtNtCs1234_3std3sys4sync5mutex5futexNtB2_5Mutex14lock_contended(ptr %m)
  br label %held
held:
  %old = atomicrmw xchg ptr %m, i32 0 release
  %wanted = icmp eq i32 %old, 2
  br i1 %wanted, label %rouse, label %out
rouse:
  call void @_RNvMNtNtNtNtCs1234_3std3sys4sync5mutex5futexNtB2_5Mutex4wake(ptr %m)
  br label %out
out:
  ret void
}
