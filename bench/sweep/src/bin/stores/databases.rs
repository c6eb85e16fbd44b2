//! SQLite and redb, both in memory: one of a thread's own, and one that all share.

use curtail_sweep::inside::compute;
use curtail_sweep::{Outcome, must, text};
use redb::backends::InMemoryBackend;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex};

static SHARED: LazyLock<Result<Mutex<Connection>, String>> = LazyLock::new(|| {
    let connection = Connection::open_in_memory().map_err(text)?;
    let table = "CREATE TABLE count (n INTEGER NOT NULL); INSERT INTO count VALUES (0)";
    connection.execute_batch(table).map_err(text)?;
    Ok(Mutex::new(connection))
});
static ADDED: AtomicU64 = AtomicU64::new(0);

fn own_database() -> Result<String, rusqlite::Error> {
    let mut own = Connection::open_in_memory()?;
    own.execute_batch("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT NOT NULL, c REAL)")?;
    own.create_scalar_function("ours", 1, FunctionFlags::SQLITE_DETERMINISTIC, |context| {
        compute();
        Ok(context.get::<i64>(0)? * 3)
    })?;
    let transaction = own.transaction()?;
    {
        let mut insert = transaction.prepare("INSERT INTO t (b, c) VALUES (?1, ?2)")?;
        for n in 0..100_i64 {
            insert.execute((format!("text {}", n % 7), n as f64 / 4.0))?;
        }
    }
    transaction.commit()?;
    let undone = own.transaction()?;
    undone.execute("DELETE FROM t", ())?;
    undone.rollback()?;
    let mut groups = own.prepare(
        "SELECT b, count(*), sum(c), sum(ours(a)) FROM t GROUP BY b HAVING count(*) > 1 ORDER BY b",
    )?;
    let rows = groups.query_map((), |row| {
        let (b, count): (String, i64) = (row.get(0)?, row.get(1)?);
        Ok(format!("{b} {count} {} {}", row.get::<_, f64>(2)?, row.get::<_, i64>(3)?))
    })?;
    Ok(rows.collect::<Result<Vec<_>, _>>()?.join(";"))
}

pub fn rusqlite() -> Outcome {
    let found = own_database().map_err(text)?;
    let shared = SHARED.as_ref().map_err(Clone::clone)?.lock().map_err(text)?;
    for _ in 0..3 {
        shared.execute("UPDATE count SET n = n + 1", ()).map_err(text)?;
        ADDED.fetch_add(1, Relaxed);
    }
    let error = shared.execute("INSERT INTO nowhere VALUES (1)", ()).err().map(|it| it.to_string());
    must!(error.as_deref() == Some("no such table: nowhere"), "the error is {error:?}");
    Ok(found)
}

pub fn rusqlite_end() -> Result<(), String> {
    let shared = SHARED.as_ref().map_err(Clone::clone)?.lock().map_err(text)?;
    let count: i64 = shared.query_row("SELECT n FROM count", (), |row| row.get(0)).map_err(text)?;
    let added = ADDED.load(Relaxed);
    must!(u64::try_from(count) == Ok(added), "{count} instead of {added}");
    Ok(())
}

const COUNTS: TableDefinition<'_, &str, u64> = TableDefinition::new("counts");
static STORE: LazyLock<Result<Database, String>> =
    LazyLock::new(|| Database::builder().create_with_backend(InMemoryBackend::new()).map_err(text));
static WRITTEN: AtomicU64 = AtomicU64::new(0);

pub fn redb() -> Outcome {
    let store = STORE.as_ref().map_err(Clone::clone)?;
    let writing = store.begin_write().map_err(text)?;
    {
        let mut table = writing.open_table(COUNTS).map_err(text)?;
        for name in ["first", "second"] {
            let before = table.get(name).map_err(text)?.map_or(0, |guard| guard.value());
            compute();
            table.insert(name, before + 1).map_err(text)?;
        }
    }
    writing.commit().map_err(text)?;
    WRITTEN.fetch_add(1, Relaxed);
    let reading = store.begin_read().map_err(text)?;
    let table = reading.open_table(COUNTS).map_err(text)?;
    let of = |name| Ok::<_, String>(table.get(name).map_err(text)?.map_or(0, |it| it.value()));
    let first = of("first")?;
    compute();
    let second = of("second")?;
    must!(first == second && first > 0, "a reader saw {first} and {second}");
    let undone = store.begin_write().map_err(text)?;
    undone.open_table(COUNTS).map_err(text)?.insert("first", 0).map_err(text)?;
    undone.abort().map_err(text)?;
    Ok("whole".to_owned())
}

pub fn redb_end() -> Result<(), String> {
    let reading = STORE.as_ref().map_err(Clone::clone)?.begin_read().map_err(text)?;
    let table = reading.open_table(COUNTS).map_err(text)?;
    let count = table.get("first").map_err(text)?.map_or(0, |guard| guard.value());
    let written = WRITTEN.load(Relaxed);
    must!(count == written, "{count} instead of {written}");
    Ok(())
}
