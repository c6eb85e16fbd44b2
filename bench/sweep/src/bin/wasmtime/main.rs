//! WebAssembly, compiled: its code has no safepoints, our function that it calls has.
#![forbid(unsafe_code)]

use curtail_sweep::inside::{self, Check, compute};
use curtail_sweep::wasm::{CALL_US, FIBONACCI, TEXT};
use curtail_sweep::{Outcome, must, text};
use std::process::ExitCode;
use std::sync::LazyLock;
use wasmtime::{Caller, Config, Engine, Linker, Module, Store, Trap};

/// An engine and a module for all.
static MODULE: LazyLock<Result<(Engine, Module), String>> = LazyLock::new(|| {
    let mut config = Config::new();
    config.consume_fuel(true);
    let engine = Engine::new(&config).map_err(text)?;
    let module = Module::new(&engine, TEXT).map_err(text)?;
    Ok((engine, module))
});

fn wasmtime() -> Outcome {
    let (engine, module) = MODULE.as_ref().map_err(Clone::clone)?;
    let mut store = Store::new(engine, 0_u64);
    let mut linker = Linker::new(engine);
    let ours = |mut caller: Caller<'_, u64>, n: i32| {
        compute();
        *caller.data_mut() += 1;
        n * 3
    };
    linker.func_wrap("host", "ours", ours).map_err(text)?;
    store.set_fuel(10_000_000).map_err(text)?;
    let instance = linker.instantiate(&mut store, module).map_err(text)?;
    let mut functions = Vec::new();
    for name in ["fib", "call_us", "trap", "deep", "endless"] {
        functions.push(instance.get_typed_func::<i32, i32>(&mut store, name).map_err(text)?);
    }
    let [fib, call_us, trap, deep, endless] = &functions[..] else {
        return Err("five functions".to_owned());
    };
    let found = fib.call(&mut store, 15).map_err(text)?;
    must!(found == FIBONACCI, "fib(15) is {found}");
    let sum = call_us.call(&mut store, 10).map_err(text)?;
    must!(sum == CALL_US && *store.data() == 10, "{sum} in {} calls", store.data());
    let trapped = trap.call(&mut store, 0).err().ok_or("it did not trap")?;
    let overflow = deep.call(&mut store, 0).err().ok_or("the stack did not overflow")?;
    store.set_fuel(10_000).map_err(text)?;
    let empty = endless.call(&mut store, 0).err().ok_or("the fuel lasted")?;
    let traps = [&trapped, &overflow, &empty].map(|error| error.downcast_ref::<Trap>().copied());
    Ok(format!("{traps:?}"))
}

fn main() -> ExitCode {
    inside::main(&[Check::new("wasmtime", wasmtime)])
}
