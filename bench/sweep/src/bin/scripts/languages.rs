//! rhai and Lua.

use curtail_sweep::inside::compute;
use curtail_sweep::{Outcome, must, text};
use mlua::Lua;
use rhai::{AST, Engine, Scope};
use std::sync::LazyLock;

/// An engine and what it has compiled, for all.
static ENGINE: LazyLock<Result<(Engine, AST), String>> = LazyLock::new(|| {
    let mut engine = Engine::new();
    engine.register_fn("ours", |n: i64| {
        compute();
        n * 3
    });
    let script = engine.compile(
        "fn fib(n) { if n < 2 { n } else { fib(n - 1) + fib(n - 2) } }
         let words = [];
         for n in 0..10 { words.push(`${n}:${ours(n)}`); }
         let map = #{ a: start, b: [1, 2, 3] };
         map.b.push(fib(10));
         let add = |x| x + map.a;
         let caught = (); try { throw \"thrown\"; } catch (error) { caught = error; }
         `${words} ${map.b.reduce(|sum, x| sum + x, 0)} ${add.call(5)} ${caught}`",
    );
    Ok((engine, script.map_err(text)?))
});

pub fn rhai() -> Outcome {
    let (engine, script) = ENGINE.as_ref().map_err(Clone::clone)?;
    let mut scope = Scope::new();
    scope.push("start", 37_i64);
    let found: String = engine.eval_ast_with_scope(&mut scope, script).map_err(text)?;
    must!(engine.eval::<i64>("1 +").is_err(), "a bad script was run");
    Ok(found)
}

const SCRIPT: &str = r#"
    local words = {}
    local squares = coroutine.wrap(function()
        for n = 1, 10 do coroutine.yield(n * n) end
    end)
    for n = 1, 10 do words[#words + 1] = n .. ":" .. squares() .. "/" .. ours(n) end
    local good, caught = pcall(function() error({ code = 7 }) end)
    local fine, text = pcall(fails)
    local parts = {}
    for word in string.gmatch("one two three", "%a+") do table.insert(parts, 1, word:upper()) end
    table.sort(parts)
    collectgarbage()
    return table.concat(words, " ") .. " " .. tostring(good) .. caught.code .. tostring(fine)
        .. " " .. table.concat(parts, ",") .. " " .. string.format("%5.2f", 22 / 7)
"#;

pub fn mlua() -> Outcome {
    let lua = Lua::new();
    let ours = lua.create_function(|_, n: i64| {
        compute();
        Ok(n * 3)
    });
    let fails = lua.create_function(|_, ()| -> mlua::Result<()> {
        compute();
        Err(mlua::Error::runtime("ours"))
    });
    lua.globals().set("ours", ours.map_err(text)?).map_err(text)?;
    lua.globals().set("fails", fails.map_err(text)?).map_err(text)?;
    let found: String = lua.load(SCRIPT).eval().map_err(text)?;
    let error = lua.load("error('out')").exec().err().map(|error| error.to_string());
    must!(error.is_some_and(|error| error.contains("out")), "no error came out");
    Ok(found)
}
