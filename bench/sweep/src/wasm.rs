//! The module that the checks of WebAssembly run.

/// In text.
pub const TEXT: &str = r#"(module
  (import "host" "ours" (func $ours (param i32) (result i32)))
  (func $fib (export "fib") (param $n i32) (result i32)
    (if (result i32) (i32.lt_s (local.get $n) (i32.const 2))
      (then (local.get $n))
      (else (i32.add
        (call $fib (i32.sub (local.get $n) (i32.const 1)))
        (call $fib (i32.sub (local.get $n) (i32.const 2)))))))
  (func (export "call_us") (param $n i32) (result i32) (local $sum i32)
    (loop $again
      (local.set $sum (i32.add (local.get $sum) (call $ours (local.get $n))))
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (br_if $again (local.get $n)))
    (local.get $sum))
  (func (export "trap") (param $n i32) (result i32)
    (i32.div_s (i32.const 1) (local.get $n)))
  (func $deep (export "deep") (param $n i32) (result i32)
    (i32.add (i32.const 1) (call $deep (local.get $n))))
  (func (export "endless") (param $n i32) (result i32)
    (loop $again (br $again))
    (unreachable)))"#;

/// `fib(15)`.
pub const FIBONACCI: i32 = 610;
/// `call_us(10)`, where `ours` is thrice its argument.
pub const CALL_US: i32 = 165;
