// LevelDB in memory: requests.cc SCANS GETS does so many scans of all 15,000 keys, then so many gets,
// on one thread, and prints how many bytes it saw.
#include "helpers/memenv/memenv.h"
#include "leveldb/db.h"
#include "leveldb/env.h"
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace {

constexpr int Keys = 15000;

std::string key(int n) {
  char text[16];
  std::snprintf(text, sizeof text, "%08d", n % Keys);
  return text;
}

void check(const leveldb::Status &status) {
  if (status.ok())
    return;
  std::fprintf(stderr, "leveldb: %s\n", status.ToString().c_str());
  std::exit(1);
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: requests SCANS GETS\n");
    return 2;
  }
  std::unique_ptr<leveldb::Env> env(leveldb::NewMemEnv(leveldb::Env::Default()));
  leveldb::Options options;
  options.env = env.get();
  options.create_if_missing = true;
  leveldb::DB *opened = nullptr;
  check(leveldb::DB::Open(options, "/db", &opened));
  std::unique_ptr<leveldb::DB> db(opened);
  for (int n = 0; n < Keys; n++)
    check(db->Put(leveldb::WriteOptions(), key(n), std::string(100, char('a' + n % 26))));

  size_t bytes = 0;
  for (int scan = std::atoi(argv[1]); scan > 0; scan--) {
    std::unique_ptr<leveldb::Iterator> at(db->NewIterator(leveldb::ReadOptions()));
    for (at->SeekToFirst(); at->Valid(); at->Next())
      bytes += at->value().size();
    check(at->status());
  }
  std::string value;
  for (int get = std::atoi(argv[2]); get > 0; get--) {
    check(db->Get(leveldb::ReadOptions(), key(get * 7919 % Keys), &value));
    bytes += value.size();
  }
  std::printf("%zu\n", bytes);
}
