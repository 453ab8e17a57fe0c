
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <limits>
#include <numeric>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/fields.hpp"

namespace snake_ddp::io {
namespace {

// What other programs call a setting, without separators, and our names for it, the likeliest first.
struct Alias {
  std::string_view theirs, ours;
};
constexpr Alias kAliases[] = {
    {"lr learningrate", "learning_rate c_lr a_lr"},
    {"criticlr lrcritic criticlearningrate qlr vflr valuelr qlearningrate", "c_lr"},
    {"actorlr lractor actorlearningrate policylr pilr policylearningrate", "a_lr"},
    {"epoch epochs nepochs numepochs numtrainepochs updateepochs maxepochs ppoepochs",
     "epochs rollout_epochs"},
    {"batch bs batchsize trainbatchsize perdevicetrainbatchsize minibatchsize nbatch sgdminibatchsize",
     "batch_size"},
    {"numsteps nsteps rolloutlength rolloutfragmentlength horizon unrolllength rollout", "rollout_steps"},
    {"totaltimesteps timesteps totalsteps maxsteps maxtimesteps numtimesteps trainsteps totalframes frames "
     "numenvsteps iterations maxiterations numiterations",
     "total_steps max_episodes max_minutes games"},
    {"episodes nepisodes numepisodes totalepisodes", "max_episodes games"},
    {"numgames ngames evalepisodes nevalepisodes numevalepisodes testepisodes", "eval_games games"},
    {"time maxtime timelimit hours maxhours minutes", "max_minutes minutes"},
    {"gpu gpus cuda usegpu usecuda nogpu nocuda cpu accelerator ngpus numgpus devices", "device"},
    {"outputdir outdir savedir savepath logdir workdir rundir expdir checkpointdir outputfolder modeldir "
     "tensorboardlog resultsdir localdir",
     "runs_dir save_dir output html"},
    {"out outfile outputfile outputpath file o", "output html save_dir runs_dir"},
    {"envs nenv nenvs numenv numenvs numenvironments numactors numworkers nworkers boards", "num_envs"},
    {"discount discountfactor discountrate", "gamma"},
    {"buffer replaysize replaybuffersize memorysize replaycapacity buffercapacity capacity replaymemory",
     "buffer_size"},
    {"env envid envname environment game", "game_name"},
    {"algorithm alg agent learner method", "algo"},
    {"randomseed rngseed", "seed"},
    {"eps explorationrate explorationinitialeps starte epsstart epsilonstart", "epsilon"},
    {"epsmin explorationfinaleps ende epsend epsilonend epsilonfinal finalepsilon", "epsilon_min"},
    {"epsdecay epsilondecay explorationfraction", "epsilon_speed"},
    {"gaelambda lambda lam", "td_lambda"},
    {"polyak softtau targettau targetupdate", "tau"},
    {"gradclip clipgrad gradientclip gradclipnorm clipgradnorm maxnorm gradnorm", "max_grad_norm"},
    {"hidden hiddenunits hiddendim hiddensize width", "hidden_size hidden_dim"},
    {"opponent opponents", "opponent_mix team_b"},
    {"nproc nprocpernode numprocs numprocesses ranks nranks numranks", "world_size"},
    {"backend", "dist_backend"},
    {"timeout", "dist_timeout"},
    {"nthreads numthreads jobs ompnumthreads", "threads"},
    {"checkpoint ckpt ckptpath resumefrom resumefromcheckpoint restore continue loadcheckpoint", "resume"},
    {"load loadpath pretrained initfrom", "load_model"},
    {"evalfreq evalevery evaluationinterval evalsteps testinterval", "eval_interval"},
    {"savefreq saveevery savesteps checkpointfreq checkpointevery", "checkpoint_interval save_interval"},
    {"amp fp16 bf16 precision dtype mixedprecision", "products"},
    {"config configfile configpath cfg conf params", "config"},
    {"player team model actor agent1 team1 teama", "player actor team_a"},
    {"opponent1 team2 agent2 teamb", "team_b"},
    {"data datadir dataset datapath", "data_path"},
    {"search mcts simulations", "eval_search search tree"},
};

std::string squashed(std::string_view name) {
  std::string plain;
  for (const unsigned char c : name)
    if (c != '_' && c != '-') plain += static_cast<char>(std::tolower(c));
  return plain;
}

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream words{std::string(text)};
  return {std::istream_iterator<std::string>(words), {}};
}

}  // namespace

std::string nearest_name(const std::string& name, const std::vector<std::string>& known) {
  if (name.size() > 100) return {};  // not a typo
  std::string best;
  std::size_t best_distance = std::numeric_limits<std::size_t>::max();
  for (const std::string& candidate : known) {
    // Levenshtein distance, one row at a time; two letters in the other order are one mistake, too.
    std::vector<std::size_t> row(candidate.size() + 1), before, last;
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= name.size(); ++i) {
      before = std::exchange(last, row);
      row[0] = i;
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        const bool same = name[i - 1] == candidate[j - 1];
        row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
        if (i > 1 && j > 1 && name[i - 1] == candidate[j - 2] && name[i - 2] == candidate[j - 1])
          row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  // With one mistake in three letters, any name would be near some other.
  return best_distance * 4 <= std::max(name.size(), best.size()) ? best : std::string();
}

std::vector<std::string> near_names(const std::string& name, const std::vector<std::string>& known) {
  constexpr std::size_t kMost = 2, kLeastTypo = 5;  // shorter names of others are near everything
  const auto is_known = [&](const std::string& other) {
    return std::find(known.begin(), known.end(), other) != known.end();
  };
  std::vector<std::string> near;
  for (const std::string& same : known)
    if (squashed(same) == squashed(name)) return {same};
  for (const Alias& alias : kAliases) {
    const std::vector<std::string> theirs = words_of(alias.theirs);
    if (std::find(theirs.begin(), theirs.end(), squashed(name)) == theirs.end()) continue;
    for (const std::string& ours : words_of(alias.ours))
      if (near.size() < kMost && is_known(ours)) near.push_back(ours);
  }
  if (!near.empty()) return near;
  // A misspelt name, of ours or of another program.
  std::vector<std::string> likely;
  for (const std::string& ours : known) likely.push_back(squashed(ours));
  for (const Alias& alias : kAliases) {
    const std::vector<std::string> ours = words_of(alias.ours);
    if (std::none_of(ours.begin(), ours.end(), is_known)) continue;
    for (const std::string& theirs : words_of(alias.theirs))
      if (theirs.size() >= kLeastTypo) likely.push_back(theirs);
  }
  const std::string nearest = nearest_name(squashed(name), likely);
  return nearest.empty() ? near : near_names(nearest, known);
}

std::string did_you_mean(const std::vector<std::string>& names, std::string_view before,
                         std::string_view after) {
  std::string text;
  for (const std::string& name : names)
    text += fmt::format("{}{}{}{}", text.empty() ? "; did you mean " : " or ", before, name, after);
  return text.empty() ? text : text + "?";
}

}  // namespace snake_ddp::io
