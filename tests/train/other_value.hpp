// A value of a setting that differs from the present one.
#pragma once

#include "io/fields.hpp"

struct OtherValue {
  const snake_ddp::io::Field& field;

  snake_ddp::io::Value operator()(const bool* now) const { return !*now; }
  snake_ddp::io::Value operator()(const std::int64_t* now) const {
    return static_cast<double>(*now) < field.most ? *now + 1 : *now - 1;
  }
  snake_ddp::io::Value operator()(const double* now) const {
    return *now > field.least ? field.least : field.most;
  }
  snake_ddp::io::Value operator()(const std::string* now) const {
    return field.choices.at(*now == field.choices.front() ? 1 : 0);
  }
};

inline snake_ddp::io::Value other_value(const snake_ddp::io::Field& field) {
  return std::visit(OtherValue{field}, field.target);
}
