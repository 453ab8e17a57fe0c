// The program for tests that start it hundreds of times: its libraries are loaded once, and each command line runs in a
// fork. Without `--serve` it is the program, as ranks that a fork starts need it.
//
// A line on standard input: {"arguments": [...], "variables": {...}, "folder": "...", "output": FILE, "errors": FILE}; answers
// on standard output: the fork's process id, and once it has ended its status as waitpid gives it. See processes.served.
#define main snake_ddp_main
#include "../../src/app/main.cpp"
#undef main

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>

namespace {

void open_as(int descriptor, const char* path, int flags) {
  const int opened = ::open(path, flags, 0600);
  if (opened < 0 || ::dup2(opened, descriptor) < 0) ::_exit(99);
  ::close(opened);
}

[[noreturn]] void run_one(const nlohmann::json& request) {
  ::setpgid(0, 0);  // for whoever ends it and its ranks
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  open_as(STDIN_FILENO, "/dev/null", O_RDONLY);
  open_as(STDOUT_FILENO, request.at("output").get<std::string>().c_str(), O_WRONLY | O_CREAT | O_TRUNC);
  open_as(STDERR_FILENO, request.at("errors").get<std::string>().c_str(), O_WRONLY | O_CREAT | O_TRUNC);
  if (::chdir(request.at("folder").get<std::string>().c_str()) != 0) ::_exit(99);
  ::clearenv();
  for (const auto& [name, value] : request.at("variables").items())
    ::setenv(name.c_str(), value.get<std::string>().c_str(), 1);
  auto line = request.at("arguments").get<std::vector<std::string>>();
  line.insert(line.begin(), "snake_ddp");
  std::vector<char*> argv;
  for (std::string& word : line) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::_exit(snake_ddp_main(static_cast<int>(line.size()), argv.data()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || std::string(argv[1]) != "--serve") return snake_ddp_main(argc, argv);
  for (std::string line; std::getline(std::cin, line);) {
    const nlohmann::json request = nlohmann::json::parse(line);
    const pid_t child = ::fork();
    if (child < 0) return 1;
    if (child == 0) run_one(request);
    ::setpgid(child, child);
    std::cout << child << std::endl;
    int status = 0;
    if (::waitpid(child, &status, 0) != child) return 1;
    std::cout << status << std::endl;
  }
  return 0;
}
