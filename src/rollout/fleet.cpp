#include "snake_ddp/rollout/fleet.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "fleet_work.hpp"
#include "show_boards.hpp"
#include "snake_ddp/base/check.hpp"
#include "snake_ddp/base/error.hpp"
#include "snake_ddp/cuda/kernels.hpp"
#include "snake_ddp/game/rules.hpp"
#include "snake_ddp/rollout/board_graphs.hpp"

namespace snake_ddp::rollout {
namespace {

std::int64_t* longs(const at::Tensor& t) { return t.data_ptr<std::int64_t>(); }

void see(at::Device device, std::int64_t count, const Seen& seen) {
  if (encode::is_view(seen.sight.kind)) return cuda::run_work(device, count, SeeView{seen});
  cuda::run_work(device, count, SeePlain{seen});
}

const game::State* boards_in(const at::Tensor& storage) {
  return static_cast<const game::State*>(storage.const_data_ptr());
}

/// Records that must outlast `interval` steps. Within 20 steps a board ends two games at most, as a new one cannot fill
/// the board so soon; games cut short end more often.
std::int64_t records_of(const CollectorOptions& o, std::int64_t interval) {
  return o.num_envs * ((interval + 19) / std::min<std::int64_t>(20, o.episode_length) + 1);
}

}  // namespace

void show_boards(const play::Sight& sight, const at::Tensor& storage, const at::Tensor& indices,
                 at::Tensor& out) {
  see(storage.device(), indices.size(0), {sight, boards_in(storage), longs(indices), out.data_ptr<float>()});
}

at::Tensor board_graphs(int view_radius, const at::Tensor& boards) {
  if (!boards.is_cpu() && !cuda::kHaveKernels)
    return board_graphs(view_radius, boards.cpu()).to(boards.device());
  SD_CHECK(reinterpret_cast<std::uintptr_t>(boards.const_data_ptr()) % alignof(game::State) == 0,
           "boards inside of other rows");
  at::Tensor out = at::empty({boards.size(0), play::kTeam, encode::kGraphsFloats}, boards.options());
  cuda::run_work(boards.device(), boards.size(0) * play::kTeam,
                 WriteGraphs{view_radius, boards_in(boards), out.data_ptr<float>()});
  return out;
}

Fleet::Fleet(const CollectorOptions& options, const agents::OpponentPlan& opponents,
             replay::DeviceBuffer& replay, std::int64_t fetch_interval)
    : options_(options),
      opponents_(opponents),
      replay_(replay),
      device_(replay.device()),
      epsilon_(options.epsilon) {
  if (replay_.capacity() < options_.num_envs * options_.n_step)
    throw base::UsageError(fmt::format(
        "--buffer_size {}: with --boards device it must hold the transitions of one step, --num_envs "
        "{} x --n_step {}",
        replay_.capacity(), options_.num_envs, options_.n_step));
  std::fill(std::begin(sources_), std::end(sources_), -1);
  const std::vector<replay::Column>& columns = replay_.columns();
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const auto found =
        std::find(std::begin(play::kSourceNames), std::end(play::kSourceNames), columns[c].name);
    SD_CHECK(found != std::end(play::kSourceNames),
             "replay has a column \"" + columns[c].name + "\" that is never filled");
    sources_[found - std::begin(play::kSourceNames)] = static_cast<std::int64_t>(c);
  }
  SD_CHECK(sources_[play::kBack] < 0 && sources_[play::kValue] < 0 && options_.memory == 0,
           "a policy that remembers");
  SD_CHECK(sources_[play::kObservation] >= 0 && sources_[play::kNextObservation] >= 0,
           "replay has no observations");
  stores_boards_ = columns[static_cast<std::size_t>(sources_[play::kObservation])].packing.unpack != nullptr;

  const auto here = at::TensorOptions().device(device_);
  const std::int64_t boards = options_.num_envs, records = records_of(options_, fetch_interval);
  counts_ = at::zeros({boards}, here.dtype(at::kLong));
  sums_ = at::zeros_like(counts_);
  records_ = at::zeros({records, kEndedFields}, here.dtype(at::kLong));
  record_epsilon_ = at::zeros({records}, here.dtype(at::kDouble));
  observations_ = at::zeros({boards, play::kTeam, options_.sight.features() + 1}, here.dtype(at::kFloat));
  values_ = at::zeros({boards, play::kTeam, play::kActions}, here.dtype(at::kFloat));
  rivals_ = at::zeros({boards, play::kTeam}, here.dtype(at::kByte));
  at::Tensor place = at::empty({boards + 1}, at::kDouble);
  auto* factor = place.data_ptr<double>();
  for (std::int64_t b = 0; b <= boards; ++b)
    factor[b] = options_.epsilon_min > 0.0 ? ladder_epsilon(options_, std::min(b, boards - 1))
                                           : (b == 0 ? 1.0 : factor[b - 1] * options_.epsilon_speed);
  place_ = place.to(device_);

  // A collector that plays nothing sets up the first boards on the host.
  CollectorOptions dealer = options_;
  dealer.opponent = [this](std::int64_t game) { return agents::Rival{opponents_.of(game)}; };
  dealer.watch = {};
  dealer.self_play = false;
  replay::Buffer unused(columns, 1);
  copy_from(Collector(dealer, unused));
}

const at::Tensor& Fleet::tensor(const std::string& name) const {
  const at::Tensor* found = nets::find(state_, name);
  SD_CHECK(found != nullptr, name);
  return *found;
}

void Fleet::copy_from(const Collector& collector) {
  // Into the same tensors each time: recordings have their addresses.
  if (state_.empty()) {
    for (const auto& [name, value] : collector.state()) {
      at::Tensor here = at::empty_like(value, value.options().device(device_));
      if (name == "window")  // rows farther apart than a collector's
        here = at::empty({value.numel() / play::kWindowWidth, play::kAlignedWindowWidth}, here.options())
                   .narrow(1, 0, play::kWindowWidth);
      state_.emplace_back(name, here);
    }
  }
  for (const auto& [name, value] : collector.state()) {
    const at::Tensor& here = tensor(name);
    here.copy_(value.view(here.sizes()));
  }
  const at::Tensor opponents = tensor("running").select(1, play::kOpponent);
  SD_CHECK((opponents >= 0).all().item<bool>(), "a game against an opponent that is not scripted");
  const agents::Opponent *const first = opponents_.opponent, *const last = first + opponents_.count;
  territory_ = (opponents == static_cast<std::int64_t>(agents::Opponent::kTerritory)).any().item<bool>() ||
               std::find(first, last, agents::Opponent::kTerritory) != last;
  fetched_ = collector.episodes_ended();
  epsilon_ = collector.epsilon();
  look();
}

void Fleet::copy_to(Collector& collector) const {
  nets::NamedTensors state;
  for (const auto& [name, value] : state_)
    state.emplace_back(name, (name == "window" ? value.flatten() : value).to(at::kCPU));
  SD_CHECK(collector.restore(state, "the boards of " + device_.str()), "a collector with other options");
}

template <class Work>
void Fleet::run(std::int64_t count) const {
  FleetArrays f{};
  f.rules = options_;
  f.opponents = opponents_;
  f.num_boards = options_.num_envs;
  f.capacity = replay_.capacity();
  f.ended_capacity = records_.size(0);
  f.best = best_;
  f.decays = options_.epsilon_min <= 0.0;
  f.boards = static_cast<game::State*>(tensor("boards").data_ptr());
  f.games = longs(tensor("games"));
  f.running = longs(tensor("running"));
  f.running_epsilon = tensor("running_epsilon").data_ptr<double>();
  f.window = tensor("window").data_ptr<float>();
  f.window_size = longs(tensor("window_size"));
  f.window_next = longs(tensor("window_next"));
  f.epsilon = tensor("epsilon").data_ptr<double>();
  f.place = place_.const_data_ptr<double>();
  f.started = longs(tensor("started"));
  f.ended = longs(tensor("ended"));
  f.values = values_.const_data_ptr<float>();
  f.rivals = rivals_.data_ptr<std::uint8_t>();
  f.counts = longs(counts_);
  f.sums = longs(sums_);
  f.records = longs(records_);
  f.record_epsilon = record_epsilon_.data_ptr<double>();
  for (int s = 0; s < play::kSources; ++s)
    if (sources_[s] >= 0)
      f.column[s] = replay_.column(static_cast<std::size_t>(sources_[s])).data_ptr<float>();
  f.counter = longs(replay_.counters());
  cuda::run_work(device_, count, Work{f});
}

void Fleet::look() {
  see(device_, options_.num_envs,
      {options_.sight, boards_in(tensor("boards")), nullptr, observations_.data_ptr<float>()});
}

void Fleet::step(nets::Policy& policy) {
  values_.copy_(policy.action_values(observations_), /*non_blocking=*/true);
  best_ = policy.answer() == nets::Policy::Answer::kValues;
  if (territory_) run<TerritoryMoves>(options_.num_envs);
  run<PlayBoard>(options_.num_envs);
  at::cumsum_out(sums_, counts_, 0);
  if (stores_boards_) {
    run<SettleBoard<true>>(options_.num_envs);
  } else {
    run<SettleBoard<false>>(options_.num_envs);
  }
  run<CountStep>(1);
  look();
}

void Fleet::fetch(std::vector<Episode>& episodes) {
  const std::int64_t ended = tensor("ended").item<std::int64_t>(), room = records_.size(0);
  epsilon_ = tensor("epsilon").item<double>();
  const at::Tensor counters = replay_.counters().to(at::kCPU);
  replay_size_ = longs(counters)[replay::kSize];
  replay_appended_ = longs(counters)[replay::kAppended];
  if (ended == fetched_) return;
  SD_CHECK(ended - fetched_ <= room, "records of ended games were overwritten before they were read");
  // Only the new records: the ring has room for two games of each board.
  const std::int64_t first = fetched_ % room, count = ended - fetched_,
                     until_wrap = std::min(count, room - first);
  const auto fetched = [&](const at::Tensor& ring) {
    return at::cat({ring.narrow(0, first, until_wrap), ring.narrow(0, 0, count - until_wrap)}).to(at::kCPU);
  };
  const at::Tensor records = fetched(records_), epsilons = fetched(record_epsilon_);
  for (std::int64_t game = 0; game < count; ++game, ++fetched_) {
    const std::int64_t* record = longs(records) + game * kEndedFields;
    SD_CHECK(record[kEndedNumber] == fetched_ + 1, "a record of another game");
    Episode e;
    e.number = record[kEndedNumber];
    e.started = record[kEndedStarted];
    for (int k = 0; k < play::kTeam; ++k) e.snake_return[k] = static_cast<int>(record[kEndedSnakes + k]);
    for (int k = 0; k < 2; ++k) e.team_return[k] = static_cast<int>(record[kEndedTeams + k]);
    e.steps = static_cast<int>(record[kEndedSteps]);
    e.epsilon = epsilons.const_data_ptr<double>()[game];
    e.opponent = agents::Rival{static_cast<agents::Opponent>(record[kEndedOpponent])};
    episodes.push_back(e);
  }
}

Wanderers::Wanderers(std::int64_t boards, std::uint64_t seed, const play::Sight* sight, at::Device device)
    : sight_(sight != nullptr ? *sight : play::Sight{}),
      seed_(seed),
      boards_(at::zeros({boards, static_cast<std::int64_t>(sizeof(game::State))}, at::kByte)),
      games_(at::zeros({boards}, at::kInt)) {
  if (sight != nullptr)
    observations_ =
        at::zeros({boards, play::kTeam, sight_.features() + 1}, at::TensorOptions(device).dtype(at::kFloat));
  auto* board = static_cast<game::State*>(boards_.data_ptr());
  for (std::int64_t b = 0; b < boards; ++b) board[b] = game::new_board({seed_, play::stream_of(b, 0)});
  boards_ = boards_.to(device);
  games_ = games_.to(device);
}

void Wanderers::step() {
  cuda::run_work(boards_.device(), boards_.size(0),
                 WanderBoard{static_cast<game::State*>(boards_.data_ptr()),
                             static_cast<std::uint32_t*>(games_.data_ptr()), seed_});
  if (observations_.defined())
    see(boards_.device(), boards_.size(0),
        {sight_, boards_in(boards_), nullptr, observations_.data_ptr<float>()});
}

}  // namespace snake_ddp::rollout
