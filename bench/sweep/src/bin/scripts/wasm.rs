//! WebAssembly, interpreted.

use curtail_sweep::inside::compute;
use curtail_sweep::wasm::{CALL_US, FIBONACCI, TEXT};
use curtail_sweep::{Outcome, must, text};
use std::sync::LazyLock;
use wasmi::{Caller, Config, Engine, Linker, Module, Store};

/// An engine and a module for all.
static MODULE: LazyLock<Result<(Engine, Module), String>> = LazyLock::new(|| {
    let mut config = Config::default();
    config.consume_fuel(true);
    let engine = Engine::new(&config);
    let module = Module::new(&engine, TEXT).map_err(text)?;
    Ok((engine, module))
});

pub fn wasmi() -> Outcome {
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
    let instance = linker.instantiate_and_start(&mut store, module).map_err(text)?;
    let function = |name| instance.get_typed_func::<i32, i32>(&store, name).map_err(text);
    let (fib, call_us) = (function("fib")?, function("call_us")?);
    let (trap, deep, endless) = (function("trap")?, function("deep")?, function("endless")?);
    let found = fib.call(&mut store, 15).map_err(text)?;
    must!(found == FIBONACCI, "fib(15) is {found}");
    let sum = call_us.call(&mut store, 10).map_err(text)?;
    must!(sum == CALL_US && *store.data() == 10, "{sum} in {} calls", store.data());
    let trapped = trap.call(&mut store, 0).err().ok_or("it did not trap")?;
    let overflow = deep.call(&mut store, 0).err().ok_or("the stack did not overflow")?;
    store.set_fuel(10_000).map_err(text)?;
    let empty = endless.call(&mut store, 0).err().ok_or("the fuel lasted")?;
    Ok(format!("{trapped}; {overflow}; {empty}"))
}
