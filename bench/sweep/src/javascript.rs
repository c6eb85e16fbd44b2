//! The script that the checks of JavaScript run.

/// Wants a global `start`.
pub const SCRIPT: &str = r#"
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
