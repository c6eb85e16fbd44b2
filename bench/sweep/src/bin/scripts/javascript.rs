//! JavaScript: QuickJS, which is C, and Boa, which is Rust.

use boa_engine::{Source, js_string, property::Attribute};
use curtail_sweep::inside::compute;
use curtail_sweep::{Outcome, must, text};
use rquickjs::{Context, Function, Runtime};

const SCRIPT: &str = r#"
    function* squares(n) { for (let i = 0; i < n; i++) yield i * i; }
    const fib = n => n < 2 ? n : fib(n - 1) + fib(n - 2);
    const read = JSON.parse(JSON.stringify({ list: [...squares(20)], text: "a\u00e9" }));
    let caught = "";
    try { null.field } catch (error) { caught = error.constructor.name }
    const counts = new Map();
    for (const word of "one two one three one".split(" ")) {
        counts.set(word, (counts.get(word) ?? 0) + 1);
    }
    const { list: [, , third, ...rest] } = read;
    const deep = (function down(n) { return n == 0 ? 0 : 1 + down(n - 1) })(100);
    `${fib(12)} ${rest.reduce((a, b) => a + b)} ${third} ${caught} ${counts.get("one")} ${deep} `
        + "x1y22z".replace(/\d+/g, found => `<${found}>`) + [3, 1, 2].sort().join("") + start
"#;

pub fn rquickjs() -> Outcome {
    let runtime = Runtime::new().map_err(text)?;
    let context = Context::full(&runtime).map_err(text)?;
    context.with(|context| {
        let ours = Function::new(context.clone(), |n: i32| {
            compute();
            n * 3
        });
        context.globals().set("ours", ours.map_err(text)?).map_err(text)?;
        context.globals().set("start", 5).map_err(text)?;
        let found: String = context.eval(SCRIPT).map_err(text)?;
        let sum: i32 = context.eval("[1, 2, 3].map(ours).reduce((a, b) => a + b)").map_err(text)?;
        must!(sum == 18, "our function gave {sum}");
        let thrown = context.eval::<(), _>("throw new RangeError('out')");
        must!(thrown.is_err(), "no exception came out");
        let thrown = context.catch();
        let thrown = thrown.as_exception().and_then(|thrown| thrown.message());
        must!(thrown.as_deref() == Some("out"), "the exception is {thrown:?}");
        Ok(found)
    })
}

pub fn boa() -> Outcome {
    let mut context = boa_engine::Context::default();
    let set = context.register_global_property(js_string!("start"), 5, Attribute::all());
    set.map_err(text)?;
    let found = context.eval(Source::from_bytes(SCRIPT)).map_err(text)?;
    let found = found.to_string(&mut context).map_err(text)?.to_std_string_escaped();
    must!(context.eval(Source::from_bytes("throw 1")).is_err(), "no exception came out");
    Ok(found)
}
