// See kv_shim.h for the contract.
#include "kv_shim.h"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>

#include "helpers/memenv/memenv.h"
#include "leveldb/cache.h"
#include "leveldb/db.h"
#include "leveldb/env.h"
#include "leveldb/iterator.h"
#include "leveldb/options.h"

// Members go in reverse order: the database first, then what it uses.
struct kv_store {
  std::unique_ptr<leveldb::Env> env;
  std::unique_ptr<leveldb::Cache> cache;
  std::unique_ptr<leveldb::DB> db;
};

struct kv_iter {
  std::unique_ptr<leveldb::Iterator> it;
  kv_entry entry = {};
  // An exception that `next` met; the iterator is not touched again after one.
  kv_code failed = KV_OK;
};

namespace {

leveldb::Slice slice(const uint8_t *bytes, size_t length) {
  return leveldb::Slice(reinterpret_cast<const char *>(bytes), length);
}

char *copy_text(const char *text, size_t length) noexcept {
  char *copy = static_cast<char *>(std::malloc(length + 1));
  if (copy != nullptr) {
    std::memcpy(copy, text, length);
    copy[length] = '\0';
  }
  return copy;
}

kv_code code_of(const leveldb::Status &s) {
  if (s.ok())
    return KV_OK;
  if (s.IsNotFound())
    return KV_NOT_FOUND;
  if (s.IsCorruption())
    return KV_CORRUPTION;
  if (s.IsNotSupportedError())
    return KV_NOT_SUPPORTED;
  if (s.IsInvalidArgument())
    return KV_INVALID_ARGUMENT;
  return KV_IO;
}

kv_status status_of(const leveldb::Status &s) {
  const kv_code code = code_of(s);
  // "Not found" is an answer, not a failure: no caller reads its text.
  if (code == KV_OK || code == KV_NOT_FOUND)
    return {code, nullptr};
  const std::string text = s.ToString();
  return {code, copy_text(text.data(), text.size())};
}

// Leaves in `entry` where LevelDB's iterator stands.
void show(kv_iter *iter) {
  if (!iter->it->Valid()) {
    iter->entry = {};
    return;
  }
  const leveldb::Slice key = iter->it->key(), value = iter->it->value();
  iter->entry = {reinterpret_cast<const uint8_t *>(key.data()), key.size(),
                 reinterpret_cast<const uint8_t *>(value.data()), value.size()};
}

// Runs `body` and turns whatever it throws into a status.
template <typename Body>
kv_status guarded(Body body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return {KV_NO_MEMORY, nullptr};
  } catch (const std::exception &e) {
    return {KV_EXCEPTION, copy_text(e.what(), std::strlen(e.what()))};
  } catch (...) {
    return {KV_EXCEPTION, nullptr};
  }
}

}  // namespace

extern "C" {

void kv_free_text(char *text) noexcept { std::free(text); }

kv_status kv_open(const kv_options *options, kv_store **store) noexcept {
  *store = nullptr;
  return guarded([&]() -> kv_status {
    std::unique_ptr<kv_store> made(new kv_store);
    made->env.reset(leveldb::NewMemEnv(leveldb::Env::Default()));
    made->cache.reset(leveldb::NewLRUCache(options->block_cache_bytes));
    leveldb::Options o;
    o.create_if_missing = true;
    o.error_if_exists = true;
    o.env = made->env.get();
    o.block_cache = made->cache.get();
    o.write_buffer_size = options->write_buffer_bytes;
    o.compression = leveldb::kNoCompression;
    leveldb::DB *db = nullptr;
    const leveldb::Status s = leveldb::DB::Open(o, "/kv", &db);
    made->db.reset(db);
    if (s.ok())
      *store = made.release();
    return status_of(s);
  });
}

void kv_close(kv_store *store) noexcept { delete store; }

kv_status kv_get(kv_store *store, const uint8_t *key, size_t key_length, uint8_t *out,
                 size_t capacity, size_t *length) noexcept {
  return guarded([&]() -> kv_status {
    std::string value;
    const leveldb::Status s =
        store->db->Get(leveldb::ReadOptions(), slice(key, key_length), &value);
    if (!s.ok())
      return status_of(s);
    *length = value.size();
    if (value.size() > capacity)
      return {KV_SMALL_BUFFER, nullptr};
    std::memcpy(out, value.data(), value.size());
    return {KV_OK, nullptr};
  });
}

kv_status kv_put(kv_store *store, const uint8_t *key, size_t key_length, const uint8_t *value,
                 size_t value_length) noexcept {
  return guarded([&]() -> kv_status {
    return status_of(store->db->Put(leveldb::WriteOptions(), slice(key, key_length),
                                    slice(value, value_length)));
  });
}

kv_status kv_delete(kv_store *store, const uint8_t *key, size_t key_length) noexcept {
  return guarded([&]() -> kv_status {
    return status_of(store->db->Delete(leveldb::WriteOptions(), slice(key, key_length)));
  });
}

kv_status kv_iter_open(kv_store *store, const uint8_t *start, size_t start_length,
                       kv_iter **iter) noexcept {
  *iter = nullptr;
  return guarded([&]() -> kv_status {
    std::unique_ptr<kv_iter> made(new kv_iter);
    made->it.reset(store->db->NewIterator(leveldb::ReadOptions()));
    if (start_length == 0) {
      made->it->SeekToFirst();
    } else {
      made->it->Seek(slice(start, start_length));
    }
    show(made.get());
    *iter = made.release();
    return {KV_OK, nullptr};
  });
}

const kv_entry *kv_iter_entry(const kv_iter *iter) noexcept { return &iter->entry; }

void kv_iter_next(kv_iter *iter) noexcept {
  if (iter->entry.key == nullptr)
    return;
  try {
    iter->it->Next();
    show(iter);
    return;
  } catch (const std::bad_alloc &) {
    iter->failed = KV_NO_MEMORY;
  } catch (...) {
    iter->failed = KV_EXCEPTION;
  }
  iter->entry = {};
}

kv_status kv_iter_status(const kv_iter *iter) noexcept {
  if (iter->failed != KV_OK)
    return {iter->failed, nullptr};
  return guarded([&]() -> kv_status { return status_of(iter->it->status()); });
}

void kv_iter_close(kv_iter *iter) noexcept { delete iter; }

kv_status kv_property(kv_store *store, const uint8_t *name, size_t name_length,
                      char **text) noexcept {
  *text = nullptr;
  return guarded([&]() -> kv_status {
    std::string value;
    if (!store->db->GetProperty(slice(name, name_length), &value))
      return {KV_NOT_FOUND, nullptr};
    *text = copy_text(value.data(), value.size());
    return {*text == nullptr ? KV_NO_MEMORY : KV_OK, nullptr};
  });
}

void kv_compact(kv_store *store) noexcept {
  // Its only failure is a lack of memory in the background thread, which LevelDB reports with the
  // next write.
  guarded([&]() -> kv_status {
    store->db->CompactRange(nullptr, nullptr);
    return {KV_OK, nullptr};
  });
}

} // extern "C"
