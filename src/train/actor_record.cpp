#include "snake_ddp/train/actor_record.hpp"
#include "snake_ddp/running/build.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/nets/policy.hpp"
#include "snake_ddp/records/json_text.hpp"

namespace snake_ddp::train {
namespace {

constexpr int kFormat = 1;
constexpr const char* kValues = "values";  // the output of a Q-network, which has no activation

[[noreturn]] void contradiction(const std::string& record, const std::string& weights) {
  throw base::FileError(fmt::format(
      "it says {}, but the weights are {}; save the weights alone, without this record", record, weights));
}

ActorRecord parsed(const files::SavedWeights& file, const std::string& path) {
  const nlohmann::json json = records::parse_json(file.record);
  if (const int format = json.at("format").get<int>(); format > kFormat)
    throw base::FileError(fmt::format("format {} is of a later version; this one reads {}", format, kFormat));
  ActorRecord record{json.at("learner"), json.at("obs"), json.at("tokens"), {}, nets::Head::kIdentity};
  const auto kind = encode::try_obs_kind(record.obs);
  if (!kind) throw base::FileError(fmt::format("unknown observation \"{}\"", record.obs));
  const auto radius = json.at("view_radius").get<int>();
  if (radius != 0 && (*kind != encode::ObsKind::kWindow || radius < encode::kLeastRadius))
    throw base::FileError(fmt::format("view_radius {} with observation \"{}\"", radius, record.obs));
  record.sight = {*kind, encode::no_scaling(), radius, !record.tokens.empty()};

  const auto head = json.at("head").get<std::string>();
  const bool q_net = nets::is_q_net(file.weights);
  if ((head == kValues) != q_net)
    contradiction("head \"" + head + "\"", q_net ? "a Q-network's" : "an actor's");
  if (!q_net) record.head = nets::head_from_name(head);
  const std::int64_t features = nets::features_of(file.weights, path), plain = encode::obs_size(*kind);
  if (record.tokens.empty() ? features != plain : features <= plain)
    contradiction(
        fmt::format("observation \"{}\"{}", record.obs, record.tokens.empty() ? "" : " with tokens"),
        fmt::format("for {} features", features));
  const auto hidden = json.at("hidden_size").get<std::int64_t>();
  if (const std::int64_t actual = nets::hidden_of(file.weights, path); hidden != actual)
    contradiction(fmt::format("hidden_size {}", hidden), fmt::format("{} wide", actual));
  record.reward = json.at("reward");
  record.training = {json.at("rival_reward"), json.at("reward_scale"), json.at("gamma")};
  return record;
}

}  // namespace

std::string actor_record_text(const Plan& plan, const files::NamedTensors& actor) {
  const nlohmann::ordered_json json = {{"format", kFormat},
                                       {"version", running::version_text()},
                                       {"learner", plan.algo},
                                       {"obs", plan.obs},
                                       {"view_radius", plan.view_radius},
                                       {"tokens", plan.tokens},
                                       {"head", nets::is_q_net(actor) ? kValues : plan.output_activation},
                                       {"hidden_size", nets::hidden_of(actor, "the actor")},
                                       {"mask_fatal", plan.mask_fatal},
                                       {"reward", plan.reward},
                                       {"rival_reward", plan.rival_reward},
                                       {"reward_scale", plan.reward_scale},
                                       {"gamma", plan.gamma}};
  return json.dump();
}

std::optional<ActorRecord> read_actor_record(const files::SavedWeights& file, const std::string& path) {
  if (file.record.empty()) return std::nullopt;
  const auto refuse = [&](const char* what) -> base::FileError {
    return base::FileError(fmt::format("{}: its record {}: {}", path, files::kRecordName, what));
  };
  try {
    return parsed(file, path);
  } catch (const base::Error& e) {
    throw refuse(e.what());
  } catch (const nlohmann::json::exception& e) {
    throw refuse(e.what());
  }
}

}  // namespace snake_ddp::train
