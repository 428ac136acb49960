// An actor without Python: plays Catch for a learner or a policy server.
//
//     sudo apt-get install g++ libgrpc++-dev libprotobuf-dev pkg-config protobuf-compiler-grpc
//     mkdir -p build
//     protoc --proto_path=seed_rl/transport --cpp_out=build --grpc_out=build \
//         --plugin=protoc-gen-grpc="$(command -v grpc_cpp_plugin)" seed_rl.proto
//     g++ -std=c++17 -Ibuild -o build/catch_actor examples/catch_actor.cc build/*.cc $(pkg-config --libs grpc++ protobuf)
//     build/catch_actor localhost:50051

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "seed_rl.grpc.pb.h"

constexpr int kProtocolVersion = 5;

// A ball falls, and a paddle on the bottom row must catch it. Replace this class with your simulator.
class Catch {
 public:
  Catch(int rows, int columns, unsigned seed) : rows_(rows), columns_(columns), random_(seed) { Begin(); }

  // Returns the reward. If the step ends an episode, begins the next one and sets `done`.
  float Step(int action, bool* done) {
    paddle_ = std::clamp(paddle_ + action - 1, 0, columns_ - 1);
    *done = ++row_ == rows_ - 1;
    if (!*done) return 0;
    const float reward = ball_ == paddle_ ? 1 : -1;
    Begin();
    return reward;
  }

  // uint8 [rows, columns, 1].
  std::string Observation() const {
    std::string board(rows_ * columns_, '\0');
    board[row_ * columns_ + ball_] = board[(rows_ - 1) * columns_ + paddle_] = '\xff';
    return board;
  }

 private:
  void Begin() {
    row_ = 0;
    ball_ = random_() % columns_;
    paddle_ = columns_ / 2;
  }

  int rows_, columns_, row_, ball_, paddle_;
  std::minstd_rand random_;
};

// After UNAVAILABLE (14), NOT_FOUND (5), RESOURCE_EXHAUSTED (8) and INTERNAL (13), an actor that should outlive its learner
// waits a moment and joins again; other errors are final.
void Check(const grpc::Status& status) {
  if (!status.ok()) throw std::runtime_error(std::to_string(status.error_code()) + ": " + status.error_message());
}

// Steps the environments of one group until the run is over.
void Play(seed_rl::Learner::Stub* learner, const std::string& session, int group, std::vector<Catch> envs) {
  grpc::ClientContext context;  // with a token: AddMetadata("authorization", "Bearer " + token)
  context.AddMetadata("seed-rl-session", session);
  context.AddMetadata("seed-rl-group", std::to_string(group));
  auto stream = learner->Act(&context);
  const size_t size = envs.size();
  std::vector<float> rewards(size, 0);
  std::string done(size, 1);        // every stream begins with new episodes
  const std::string last(size, 0);  // no episode of Catch is truncated
  seed_rl::StepRequest step;
  seed_rl::StepReply reply;
  for (;;) {
    std::string* payload = step.mutable_payload();  // one array after another, little-endian
    payload->assign(reinterpret_cast<const char*>(rewards.data()), size * sizeof(float));
    payload->append(done).append(last);
    for (const Catch& env : envs) payload->append(env.Observation());
    if (!stream->Write(step) || !stream->Read(&reply)) break;
    for (size_t env = 0; env < size; ++env) {
      int32_t action;
      std::memcpy(&action, reply.payload().data() + env * sizeof(action), sizeof(action));
      bool ended;
      rewards[env] = envs[env].Step(action, &ended);
      done[env] = ended;
    }
  }
  Check(stream->Finish());
}

void Act(const std::string& address) {
  auto learner = seed_rl::Learner::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext describe_context, join_context;

  seed_rl::DescribeRequest describe;
  seed_rl::DescribeReply described;
  describe.set_protocol_version(kProtocolVersion);
  describe.set_client("catch_actor");
  Check(learner->Describe(&describe_context, describe, &described));
  if (described.env().suite() != "catch") {
    throw std::runtime_error("the learner trains on " + described.env().suite() + ", and this actor plays catch");
  }
  const auto& options = described.env().options();
  const int rows = options.at("rows").int_value(), columns = options.at("columns").int_value();

  seed_rl::JoinRequest join;
  seed_rl::JoinReply joined;
  join.set_protocol_version(kProtocolVersion);
  join.set_run_id(std::to_string(std::random_device()()));
  auto& board = (*join.mutable_env_spec()->mutable_observation())[""];
  board.set_dtype("uint8");
  for (int length : {rows, columns, 1}) board.add_shape(length);
  join.mutable_env_spec()->mutable_discrete()->set_n(3);
  for (unsigned group = 0; group < described.num_groups(); ++group) join.add_group_sizes(described.envs_per_group());
  Check(learner->Join(&join_context, join, &joined));
  std::cout << "joined with " << described.num_groups() << " groups of " << described.envs_per_group()
            << " environments" << std::endl;

  std::vector<std::thread> groups;
  for (int group = 0; group < joined.groups_size(); ++group) {
    groups.emplace_back([&, group] {
      std::vector<Catch> envs;
      for (unsigned env = 0; env < described.envs_per_group(); ++env) {
        envs.emplace_back(rows, columns, joined.groups(group).seed() + env);
      }
      try {
        Play(learner.get(), joined.session(), group, std::move(envs));
      } catch (const std::exception& error) {
        std::cerr << error.what() << std::endl;
        std::_Exit(1);
      }
    });
  }
  for (std::thread& group : groups) group.join();
  std::cout << "the run is over" << std::endl;
}

int main(int argc, char** argv) {
  try {
    Act(argc > 1 ? argv[1] : "localhost:50051");
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
