/* LevelDB as plain C functions, for src/ffi.rs.
 *
 * No exception leaves a function here: each is noexcept and turns what it catches into a code. No
 * function calls back into Rust, so no Rust panic ever meets a C++ frame. A store may be used by
 * any number of threads and fibers at once, an iterator by one at a time. Nothing here is
 * thread-local: a fiber may be pre-empted anywhere and another may enter on the same thread.
 */
#ifndef KV_SHIM_H
#define KV_SHIM_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define KV_NOEXCEPT noexcept
extern "C" {
#else
#define KV_NOEXCEPT
#endif

/* The numbers are repeated in src/ffi.rs. */
enum kv_code {
  KV_OK = 0,
  KV_NOT_FOUND = 1,
  KV_CORRUPTION = 2,
  KV_NOT_SUPPORTED = 3,
  KV_INVALID_ARGUMENT = 4,
  KV_IO = 5,
  KV_NO_MEMORY = 6,
  KV_EXCEPTION = 7,
  KV_SMALL_BUFFER = 8,
};

struct kv_store;
struct kv_iter;

struct kv_options {
  uint64_t write_buffer_bytes;
  uint64_t block_cache_bytes;
};

/* How a call ended. `message`, where not NULL, is a NUL-terminated text that the caller gives to
 * kv_free_text. */
struct kv_status {
  int32_t code;
  char *message;
};

void kv_free_text(char *text) KV_NOEXCEPT;

/* Opens a new, empty store that lives in memory alone. */
struct kv_status kv_open(const struct kv_options *options, struct kv_store **store) KV_NOEXCEPT;
/* All iterators must be closed before. */
void kv_close(struct kv_store *store) KV_NOEXCEPT;

/* Copies the value to `out` and its length to `length`. KV_SMALL_BUFFER where it is longer than
 * `capacity`: `length` is set, `out` is not written. */
struct kv_status kv_get(struct kv_store *store, const uint8_t *key, size_t key_length, uint8_t *out,
                        size_t capacity, size_t *length) KV_NOEXCEPT;
struct kv_status kv_put(struct kv_store *store, const uint8_t *key, size_t key_length,
                        const uint8_t *value, size_t value_length) KV_NOEXCEPT;
struct kv_status kv_delete(struct kv_store *store, const uint8_t *key,
                           size_t key_length) KV_NOEXCEPT;

/* Bytes that stay as they are until the iterator moves or is closed. A key of NULL: there is no entry;
 * then kv_iter_status says whether that is the end or a failure. */
struct kv_entry {
  const uint8_t *key;
  size_t key_length;
  const uint8_t *value;
  size_t value_length;
};

/* A consistent snapshot of the whole store, positioned at the first key that is not less than
 * `start`. */
struct kv_status kv_iter_open(struct kv_store *store, const uint8_t *start, size_t start_length,
                              struct kv_iter **iter) KV_NOEXCEPT;
/* Where the current entry always is, as long as the iterator is open: to look at it takes no call. */
const struct kv_entry *kv_iter_entry(const struct kv_iter *iter) KV_NOEXCEPT;
/* To the next entry; at the end it stays there. A failure shows in kv_iter_status. */
void kv_iter_next(struct kv_iter *iter) KV_NOEXCEPT;
struct kv_status kv_iter_status(const struct kv_iter *iter) KV_NOEXCEPT;
void kv_iter_close(struct kv_iter *iter) KV_NOEXCEPT;

/* One of LevelDB's properties, as a text for kv_free_text. KV_NOT_FOUND: no such property. */
struct kv_status kv_property(struct kv_store *store, const uint8_t *name, size_t name_length,
                             char **text) KV_NOEXCEPT;
/* Merges everything written so far into as few tables as can be. */
void kv_compact(struct kv_store *store) KV_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif
