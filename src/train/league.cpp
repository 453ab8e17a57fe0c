#include "train/league.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "learners/learner.hpp"
#include "snake_ddp/core/check.hpp"
#include "snake_ddp/core/error.hpp"
#include "snake_ddp/core/random.hpp"
#include "snake_ddp/game/mirror.hpp"
#include "train/file_teams.hpp"
#include "train/judge.hpp"

namespace snake_ddp::train {
namespace {

constexpr double kLeastHardness = 0.05;

double points(const play::MatchResult& r) {
  return (static_cast<double>(r.wins) + 0.5 * static_cast<double>(r.draws)) / static_cast<double>(r.games);
}

nets::NamedTensors copy_of(const nets::NamedTensors& weights) {
  nets::NamedTensors copies;
  for (const auto& [name, tensor] : weights)
    copies.emplace_back(name,
                        tensor.to(at::kCPU, at::kFloat, /*non_blocking=*/false, /*copy=*/true).contiguous());
  return copies;
}

std::string weights_prefix(std::size_t place) { return fmt::format("frozen.{}.", place); }

// In a state, followed by the path: the place of a member from a file.
constexpr const char* kFilePrefix = "file.";

bool is_copy(const LeagueMember& member) { return member.rival.is_frozen() && !member.rival.is_file(); }

// The members that an empty league has.
std::vector<LeagueMember> first_members(const LeagueOptions& options) {
  std::vector<LeagueMember> members;
  for (const game::Opponent who : options.scripted) members.push_back({{who}});
  if (options.files == nullptr) return members;
  for (const FileTeams::Team& team : options.files->teams()) members.push_back({team.rival, 0, 1, team.path});
  return members;
}

}  // namespace

std::string name_of(const LeagueMember& member) {
  if (member.rival.is_file()) return "file:" + member.file;  // it may be called like a scripted team
  return is_copy(member) ? fmt::format("#{}", member.episode) : std::string(game::name(member.rival));
}

League::League(LeagueOptions options) : options_(std::move(options)), members_(first_members(options_)) {}

game::Rival League::drawn(std::uint64_t seed, std::uint64_t draw) const {
  SD_CHECK(!members_.empty(), "a league needs a member before it is asked for one");
  std::vector<double> weights;
  for (const LeagueMember& member : members_) weights.push_back(std::max(member.hardness, kLeastHardness));
  const float unit = core::unit_float(core::random_block(seed, draw, 0, core::Purpose::kRival).word[1]);
  return members_[game::place_of(static_cast<double>(unit), weights)].rival;
}

std::size_t League::number_of(const std::string& name) const {
  for (std::size_t k = 0; k < members_.size(); ++k)
    if (name_of(members_[k]) == name) return k;
  throw core::Bug("a result of nobody: " + name);
}

nets::Policy* League::frozen(int place) const {
  const auto at = static_cast<std::size_t>(place);
  return at < frozen_.size() ? frozen_[at].policy.get() : nullptr;
}

rollout::Player League::player(nets::Policy& policy, const nets::NamedTensors& weights) const {
  return rollout::with_search({std::nullopt, &policy, options_.obs_spec, false, options_.mask_fatal},
                              nets::is_q_net(weights) ? options_.search : std::nullopt, options_.training,
                              weights);
}

rollout::Player League::player(const LeagueMember& member) const {
  if (!member.rival.is_frozen()) return {member.rival.scripted, nullptr, {}, false};
  if (member.rival.is_file()) {
    const auto number = static_cast<std::size_t>(member.rival.frozen - game::Rival::kFirstFile);
    const FileTeams::Team& team = options_.files->teams()[number];
    return player(*team.policy, team.weights);
  }
  const Frozen& copy = frozen_[static_cast<std::size_t>(member.rival.frozen)];
  return player(*copy.policy, copy.weights);
}

const League::Met* League::find_met(const std::string& a, const std::string& b) const {
  const auto found =
      std::find_if(met_.begin(), met_.end(), [&](const Met& met) { return met.a == a && met.b == b; });
  return found == met_.end() ? nullptr : &*found;
}

// Ratings need games between all members: pairs that have not met in a judgement play now. Returns false if
// a stop was requested.
bool League::let_members_meet(dist::DistContext& context, const play::MatchOptions& options,
                              const Alive& alive, const std::function<bool()>& stopping) {
  std::vector<rollout::Player> players;
  for (const LeagueMember& member : members_) players.push_back(player(member));
  std::vector<Pairing> pairings;
  std::vector<std::pair<std::string, std::string>> names;
  for (std::size_t a = 0; a < members_.size(); ++a) {
    for (std::size_t b = a + 1; b < members_.size(); ++b) {
      const std::string first = name_of(members_[a]), second = name_of(members_[b]);
      if (find_met(first, second) != nullptr || find_met(second, first) != nullptr) continue;
      pairings.push_back({&players[a], &players[b]});
      names.emplace_back(first, second);
    }
  }
  if (pairings.empty()) return true;
  const auto results = judge_all(pairings, options, context, stopping, alive);
  if (!results) return false;
  for (std::size_t k = 0; k < results->size(); ++k) {
    const play::MatchResult& r = (*results)[k];
    met_.push_back({names[k].first, names[k].second, r.wins, r.draws, r.losses});
  }
  return true;
}

void League::enter(const nets::NamedTensors& weights, const Judgement& judgement) {
  LeagueMember fresh{{std::nullopt, static_cast<int>(frozen_.size())}, judgement.episode, 0.5};
  for (std::size_t k = 0; k < members_.size(); ++k) {
    const play::MatchResult& r = judgement.against[k];
    met_.push_back({name_of(fresh), name_of(members_[k]), r.wins, r.draws, r.losses});
  }
  if (frozen_.size() == static_cast<std::size_t>(options_.places)) {
    const auto easiest = std::min_element(
        std::find_if(members_.begin(), members_.end(), is_copy), members_.end(),
        [](const LeagueMember& a, const LeagueMember& b) { return a.hardness < b.hardness; });
    const std::string gone = name_of(*easiest);
    std::erase_if(met_, [&](const Met& met) { return met.a == gone || met.b == gone; });
    fresh.rival = easiest->rival;
    members_.erase(easiest);
  } else {
    frozen_.emplace_back();
  }
  Frozen& place = frozen_[static_cast<std::size_t>(fresh.rival.frozen)];
  place.weights = copy_of(weights);
  place.policy = nets::make_policy(place.weights, options_.head, name_of(fresh),
                                   game::mirror_of(options_.obs_spec.kind), options_.device);
  members_.push_back(fresh);
}

std::optional<Judgement> League::judge(learners::Learner& learner, std::int64_t episode,
                                       dist::DistContext& context, const Alive& alive,
                                       const std::function<bool()>& stopping) {
  Judgement judgement;
  judgement.episode = episode;
  play::MatchOptions match;
  match.games = (options_.games + static_cast<std::int64_t>(members_.size()) - 1) /
                static_cast<std::int64_t>(members_.size());
  match.seed = options_.seed + static_cast<std::uint64_t>(judgements_ + 1) * 1000003U;
  match.watch = [&](std::int64_t, const game::State&) { alive({}); };
  if (!let_members_meet(context, match, alive, stopping)) return std::nullopt;

  const rollout::Player self = player(learner.policy(), learner.exported_actor());
  std::vector<rollout::Player> players;
  for (const LeagueMember& member : members_) players.push_back(player(member));
  std::vector<Pairing> pairings;
  pairings.reserve(players.size());
  for (const rollout::Player& other : players) pairings.push_back({&self, &other});
  std::optional<std::vector<play::MatchResult>> results =
      judge_all(pairings, match, context, stopping, alive);
  if (!results) return std::nullopt;
  judgement.against = std::move(*results);
  ++judgements_;

  std::vector<play::Meeting> meetings;
  for (const Met& met : met_)
    meetings.push_back({number_of(met.a), number_of(met.b), met.wins, met.draws, met.losses});
  for (std::size_t k = 0; k < members_.size(); ++k) {
    const play::MatchResult& r = judgement.against[k];
    judgement.total.add(r);
    members_[k].hardness = 1 - points(r);
    meetings.push_back({members_.size(), k, r.wins, r.draws, r.losses});
  }
  judgement.rating = play::fit_elo(members_.size() + 1, meetings, 0).back();
  judgement.entered = judgement.total.win_rate() >= options_.entry;
  if (judgement.entered) enter(learner.exported_actor(), judgement);
  judgement.members = members_.size();
  return judgement;
}

nets::NamedTensors League::state() const {
  nets::NamedTensors state;
  std::vector<std::int64_t> places, episodes, met;
  std::vector<double> hardness;
  for (const LeagueMember& member : members_) {
    // Scripted members are stored as -1 - their number.
    places.push_back(member.rival.is_frozen() ? member.rival.frozen
                                              : -1 - static_cast<std::int64_t>(*member.rival.scripted));
    episodes.push_back(member.episode);
    hardness.push_back(member.hardness);
    if (member.rival.is_file())
      state.emplace_back(kFilePrefix + member.file, at::scalar_tensor(member.rival.frozen, at::kLong));
  }
  const auto number = [&](const std::string& name) { return static_cast<std::int64_t>(number_of(name)); };
  for (const Met& m : met_)
    for (const std::int64_t value : {number(m.a), number(m.b), m.wins, m.draws, m.losses})
      met.push_back(value);
  const auto whole = [](const std::vector<std::int64_t>& values) { return at::tensor(values, at::kLong); };
  state.emplace_back("places", whole(places));
  state.emplace_back("episodes", whole(episodes));
  state.emplace_back("hardness", at::tensor(hardness, at::kDouble));
  state.emplace_back("met", whole(met));
  state.emplace_back("judgements", at::scalar_tensor(judgements_, at::kLong));
  for (std::size_t place = 0; place < frozen_.size(); ++place)
    nets::add_under(state, weights_prefix(place), frozen_[place].weights);
  return state;
}

std::vector<League::Met> League::results_of(const at::Tensor& met, const std::vector<LeagueMember>& members,
                                            const nets::StateReader& there) {
  const auto count = static_cast<std::int64_t>(members.size());
  std::vector<Met> results;
  for (std::int64_t k = 0; k < met.numel(); k += 5) {
    const auto* m = met.data_ptr<std::int64_t>() + k;
    there.refuse(m[0] < 0 || m[0] >= count || m[1] < 0 || m[1] >= count || m[2] < 0 || m[3] < 0 || m[4] < 0,
                 "met");
    if (m[0] == m[1]) continue;
    results.push_back({name_of(members[static_cast<std::size_t>(m[0])]),
                       name_of(members[static_cast<std::size_t>(m[1])]), m[2], m[3], m[4]});
  }
  return results;
}

void League::restore(const nets::NamedTensors& state, const std::string& what) {
  const nets::StateReader there(state, what);
  const at::Tensor places = there.of(at::kLong, "places"), episodes = there.of(at::kLong, "episodes"),
                   hardness = there.of(at::kDouble, "hardness"), met = there.of(at::kLong, "met");
  const auto judgements = there.number<std::int64_t>("judgements"), count = places.numel();
  there.refuse(episodes.numel() != count, "episodes");
  there.refuse(hardness.numel() != count, "hardness");
  there.refuse(met.numel() % 5 != 0, "met");
  there.refuse(judgements < 0, "judgements");

  std::vector<LeagueMember> then;
  std::vector<Frozen> frozen;
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t place = places.data_ptr<std::int64_t>()[k];
    LeagueMember member{{}, episodes.data_ptr<std::int64_t>()[k], hardness.data_ptr<double>()[k]};
    there.refuse(!(member.hardness >= 0 && member.hardness <= 1), "hardness");
    if (place < 0) {
      there.refuse(-1 - place >= static_cast<std::int64_t>(game::kOpponents.size()), "places");
      member.rival = {static_cast<game::Opponent>(-1 - place)};
    } else if (place >= game::Rival::kFirstFile) {
      member.rival = {std::nullopt, static_cast<int>(place)};
      for (const auto& [path, at] : nets::under(state, kFilePrefix))
        if (there.number<std::int64_t>(kFilePrefix + path) == place) member.file = path;
      there.refuse(member.file.empty(), "places");
    } else {
      there.refuse(place >= count, "places");
      member.rival = {std::nullopt, static_cast<int>(place)};
      if (frozen.size() <= static_cast<std::size_t>(place))
        frozen.resize(static_cast<std::size_t>(place) + 1);
      Frozen& into = frozen[static_cast<std::size_t>(place)];
      there.refuse(into.policy != nullptr, "places");
      const std::string prefix = weights_prefix(static_cast<std::size_t>(place));
      for (const auto& [name, tensor] : nets::under(state, prefix))
        into.weights.emplace_back(name, tensor.contiguous());
      into.policy = nets::make_policy(into.weights, options_.head, fmt::format("{}, {}", what, prefix),
                                      game::mirror_of(options_.obs_spec.kind), options_.device);
    }
    then.push_back(member);
  }
  for (const Frozen& team : frozen) there.refuse(team.policy == nullptr, "places");
  std::vector<Met> results = results_of(met, then, there);

  members_ = first_members(options_);
  for (LeagueMember& member : members_) {
    for (const LeagueMember& known : then)
      if (!is_copy(known) && name_of(known) == name_of(member)) member.hardness = known.hardness;
  }
  std::copy_if(then.begin(), then.end(), std::back_inserter(members_), is_copy);
  const auto is_member = [&](const std::string& name) {
    return std::any_of(members_.begin(), members_.end(),
                       [&](const LeagueMember& member) { return name_of(member) == name; });
  };
  std::erase_if(results, [&](const Met& m) { return !is_member(m.a) || !is_member(m.b); });
  met_ = std::move(results);
  frozen_ = std::move(frozen);
  judgements_ = judgements;
}

}  // namespace snake_ddp::train
