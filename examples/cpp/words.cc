// A server in C++: a request is a text, the answer how often each word is in it. A client on a thread
// asks it once.
//
//   curtail-c++ -std=c++17 -O2 -I target/release/include examples/cpp/words.cc -L target/release
//     -lcurtail_c -o words
#include <curtail.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

namespace {

// An ordinary function of C++: it allocates, and may throw. An exception fails this request alone.
std::string count(const std::string &text) {
  std::map<std::string, int> words;
  std::istringstream in(text);
  for (std::string word; in >> word;)
    words[word]++;
  std::ostringstream out;
  for (const auto &[word, times] : words)
    out << word << ' ' << times << '\n';
  return out.str();
}

int handle(void *, void *, const uint8_t *request, size_t length, curtail_response *response) {
  std::string answer = count(std::string(reinterpret_cast<const char *>(request), length));
  return curtail_response_write(response, answer.data(), answer.size());
}

std::string ask(const curtail_server *server, const std::string &text) {
  const char *port = std::strrchr(curtail_server_address(server), ':') + 1;
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(port)));
  int line = socket(AF_INET, SOCK_DGRAM, 0);
  timeval patience{60, 0};
  setsockopt(line, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  char answer[2048];
  sendto(line, text.data(), text.size(), 0, reinterpret_cast<sockaddr *>(&to), sizeof to);
  ssize_t length = recv(line, answer, sizeof answer, 0);
  close(line);
  return length < 0 ? "no answer\n" : std::string(answer, static_cast<size_t>(length));
}

using Settings = std::unique_ptr<curtail_settings, decltype(&curtail_settings_free)>;
using Server = std::unique_ptr<curtail_server, decltype(&curtail_server_free)>;

} // namespace

int main() {
  curtail_error error{};
  curtail_app app{};
  app.size = sizeof app;
  app.handle = handle;
  Settings settings(curtail_settings_new(), curtail_settings_free);
  curtail_server *made = nullptr;
  if (curtail_set(settings.get(), "listen", "udp://127.0.0.1:0", &error) != CURTAIL_OK ||
      curtail_server_new(&app, settings.get(), &made, &error) != CURTAIL_OK) {
    std::cerr << error.message << '\n';
    return 1;
  }
  Server server(made, curtail_server_free);
  std::thread client([&] {
    std::cout << ask(server.get(), "one fish two fish");
    curtail_server_shutdown(server.get());
  });
  // The calling thread becomes the dispatcher.
  curtail_status status = curtail_server_run(server.get(), &error);
  client.join();
  if (status != CURTAIL_OK)
    std::cerr << error.message << '\n';
  return status;
}
