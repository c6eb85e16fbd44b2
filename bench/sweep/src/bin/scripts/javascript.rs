//! JavaScript, by QuickJS.

use curtail_sweep::inside::compute;
use curtail_sweep::{Outcome, javascript, must, text};
use rquickjs::{Context, Function, Runtime};

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
        let found: String = context.eval(javascript::SCRIPT).map_err(text)?;
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
