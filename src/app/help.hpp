// The text of --help, for all commands.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace snake_ddp::app {

/// Arguments, then flags by group, each with its first spelling, what it takes (CLI::Option::option_text), what it does and its
/// default; then the footer. Wrapped at the terminal's width, or at 80 columns.
/// A footer's paragraphs are wrapped, lines that begin with a space are not, and of a line "NAME<tab>text" the text is wrapped
/// beside the name.
class Help : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;

 protected:
  [[nodiscard]] virtual bool shows(const CLI::Option& /*option*/) const { return true; }
  [[nodiscard]] virtual std::string usual_value(const CLI::Option& option) const {
    return option.get_default_str();
  }
};

}  // namespace snake_ddp::app
