// C++ exceptions that leave functions of the application: each is that call's failure, and no more.
#include "client.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

curtail_error error;
std::mutex lock;
int locked = 0;
std::atomic<int> torn_down{0};

std::string text(const uint8_t *request, size_t length) {
  return std::string(reinterpret_cast<const char *>(request), length);
}

uint16_t classify(void *, const uint8_t *request, size_t length) {
  if (text(request, length) == "unclassifiable")
    throw std::runtime_error("classify");
  return 0;
}

uint64_t hint(void *, const uint8_t *, size_t) { throw 1; }

int handle(void *, void *, const uint8_t *request, size_t length, curtail_response *response) {
  std::string said = text(request, length);
  // Held across the throw: the unwinding gives it back.
  std::lock_guard<std::mutex> hold(lock);
  locked++;
  if (said == "throw" || said == "twice")
    throw std::runtime_error(said);
  if (said == "fail")
    return 1;
  try {
    throw std::logic_error(said);
  } catch (const std::exception &caught) {
    said = std::string("caught ") + caught.what();
  }
  return curtail_response_write(response, said.data(), said.size());
}

void failed(void *, const uint8_t *request, size_t length, curtail_response *response) {
  curtail_response_write(response, "sorry", 5);
  if (text(request, length) == "twice")
    throw 2;
}

void teardown_worker(void *, void *) {
  torn_down++;
  throw 3;
}

curtail_app good() {
  curtail_app app{};
  app.size = sizeof app;
  app.classify = classify;
  app.hint = hint;
  app.handle = handle;
  app.failed = failed;
  app.teardown_worker = teardown_worker;
  return app;
}

curtail_server *made(const curtail_app &app, const char *policy = "sjf") {
  curtail_settings *settings = curtail_settings_new();
  CHECK(curtail_set(settings, "listen", "udp://127.0.0.1:0", &error) == CURTAIL_OK);
  CHECK(curtail_set(settings, "workers", "1", &error) == CURTAIL_OK);
  CHECK(curtail_set(settings, "policy", policy, &error) == CURTAIL_OK);
  curtail_server *server;
  CHECK(curtail_server_new(&app, settings, &server, &error) == CURTAIL_OK);
  curtail_settings_free(settings);
  return server;
}

// Waits until so many requests were turned away.
void malformed(curtail_server *server, uint64_t wanted) {
  auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (uint64_t found = 0; found != wanted;) {
    CHECK(found < wanted && std::chrono::steady_clock::now() < patience);
    curtail_stats *stats;
    CHECK(curtail_server_stats(server, &stats, &error) == CURTAIL_OK);
    found = stats->malformed;
    curtail_stats_free(stats);
  }
}

void requests(const char *policy) {
  locked = 0;
  curtail_server *server = made(good(), policy);
  curtail_status status = CURTAIL_INTERNAL;
  std::thread thread([&] { status = curtail_server_run(server, nullptr); });
  int line = connect_to(server);
  tell(line, "unclassifiable"); // turned away where it came in, with no answer
  for (int round = 0; round < 100; round++) {
    ask(line, "fine", "caught fine");
    ask(line, "throw", "sorry");
    ask(line, "fail", "sorry");
  }
  tell(line, "twice"); // half an answer is none
  ask(line, "end", "caught end");
  // A classifier of one's own is put in place, and throws, too.
  auto worse = [](void *, const uint8_t *, size_t) -> uint16_t { throw 4; };
  auto release = [](void *) { throw 5; };
  CHECK(curtail_server_classify_by(server, worse, nullptr, release, &error) == CURTAIL_OK);
  in_force(server);
  tell(line, "anything");
  malformed(server, 2);
  CHECK(curtail_server_classify_by(server, nullptr, nullptr, nullptr, &error) == CURTAIL_OK);
  curtail_server_shutdown(server);
  thread.join();
  CHECK(status == CURTAIL_OK);
  curtail_stats *stats;
  CHECK(curtail_server_stats(server, &stats, &error) == CURTAIL_OK);
  CHECK(stats->classes[0].completed == 101);
  CHECK(stats->classes[0].failed == 201);
  curtail_stats_free(stats);
  curtail_server_free(server);
  close(line);
  CHECK(locked == 302 && torn_down >= 1);
}

void setups() {
  curtail_app app = good();
  app.setup = [](void *, curtail_error *) -> int { throw 6; };
  curtail_server *server;
  curtail_settings *settings = curtail_settings_new();
  CHECK(curtail_set(settings, "listen", "udp://127.0.0.1:0", &error) == CURTAIL_OK);
  FAILS(CURTAIL_REFUSED, "exception", curtail_server_new(&app, settings, &server, &error));
  curtail_settings_free(settings);
  app = good();
  app.setup_worker = [](void *, uint16_t, void **, curtail_error *) -> int { throw 7; };
  server = made(app);
  FAILS(CURTAIL_REFUSED, "exception", curtail_server_run(server, &error));
  curtail_server_free(server);
}

} // namespace

int main() {
  requests("sjf");
  requests("shenango"); // without a dispatcher
  setups();
  puts("all as it should be");
}
