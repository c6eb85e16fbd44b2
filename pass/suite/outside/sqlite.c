/* SQLite, in memory: a table with an index is filled, then searched, joined, grouped and sorted, by
 * its bytecode interpreter. */
#include "outside.h"

#include <sqlite3.h>

enum { ROWS = 10000, KEYS = 2000 };

static void execute(sqlite3 *db, const char *sql) {
  expect(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, sql);
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement;
  expect(sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK, sql);
  return statement;
}

static void fill(sqlite3 *db) {
  execute(db, "create table event (id integer primary key, name text, took real);"
              "create index by_name on event (name); begin");
  sqlite3_stmt *insert = prepare(db, "insert into event (name, took) values (?, ?)");
  for (int i = 0; i < ROWS; i++) {
    char name[32];
    snprintf(name, sizeof name, "key%llu", (unsigned long long)suite_below(KEYS));
    sqlite3_bind_text(insert, 1, name, -1, SQLITE_TRANSIENT);
    sqlite3_bind_double(insert, 2, i * 0.5);
    expect(sqlite3_step(insert) == SQLITE_DONE, "sqlite does not insert");
    sqlite3_reset(insert);
  }
  sqlite3_finalize(insert);
  execute(db, "commit");
}

static uint64_t query(uint64_t sum, sqlite3 *db, const char *sql) {
  sqlite3_stmt *select = prepare(db, sql);
  int code;
  while ((code = sqlite3_step(select)) == SQLITE_ROW)
    for (int i = 0; i < sqlite3_column_count(select); i++) {
      const unsigned char *text = sqlite3_column_text(select, i);
      sum = mix_bytes(sum, text, (size_t)sqlite3_column_bytes(select, i));
    }
  expect(code == SQLITE_DONE, sql);
  sqlite3_finalize(select);
  return sum;
}

int main(int argc, char **argv) {
  static const char *const queries[] = {
      "select name, count(*), sum(took) from event group by name order by 2 desc, 1 limit 10",
      "select count(*) from event a join event b on a.name = b.name where a.id < 1000",
      "select id, name from event where name like '%99%' order by took desc",
      "select sum(length(name) * took) from event",
  };
  uint64_t rounds = suite_rounds(argc, argv, 100), sum = 0;
  for (uint64_t r = 0; r < rounds; r++) {
    sqlite3 *db;
    expect(sqlite3_open(":memory:", &db) == SQLITE_OK, "sqlite does not open");
    fill(db);
    for (unsigned i = 0; i < sizeof queries / sizeof *queries; i++)
      sum = query(sum, db, queries[i]);
    sqlite3_close(db);
  }
  return suite_end(sum);
}
