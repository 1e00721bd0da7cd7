#include <set>

#include "kernel_fixture.h"

namespace pastkv::engine {
namespace {

TEST(KernelSets, HaveNamesOfTheirOwnAndPortableRunsEverywhere) {
  std::set<std::string_view> names;
  for (const KernelSet* set : kernel_sets()) {
    EXPECT_TRUE(names.insert(set->name).second) << set->name;
    EXPECT_EQ(find_kernel_set(set->name), set);
  }
  const KernelSet* portable = find_kernel_set("portable");
  ASSERT_NE(portable, nullptr);
  EXPECT_TRUE(portable->available());
  EXPECT_EQ(find_kernel_set("abacus"), nullptr);
}

TEST(KernelSets, BestIsTheFirstThatRuns) {
  EXPECT_EQ(&best_kernel_set(), runnable_sets().front());
}

TEST(KernelSets, AllPrepareForTheSameTypes) {
  for (const KernelSet* set : kernel_sets()) {
    for (const tensor::DType type : {tensor::DType::f16, tensor::DType::q4_0, tensor::DType::q6_k}) {
      EXPECT_EQ(set->preparation(type), kernel_sets().back()->preparation(type));
    }
  }
}

}  // namespace
}  // namespace pastkv::engine
