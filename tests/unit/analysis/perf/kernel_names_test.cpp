#include <gtest/gtest.h>

#include "src/analysis/perf/kernel_compare.h"

namespace msprobe::analysis::perf {
namespace {

TEST(KernelNames, BothVendorsNameTheSameThingAlike) {
  EXPECT_EQ(NeutralName("hipLaunchKernel"), "cudaLaunchKernel");
  EXPECT_EQ(NeutralName("hipMemcpyWithStream"), "cudaMemcpyAsync");
  EXPECT_EQ(NeutralName("hipExtModuleLaunchKernel"), NeutralName("cuLaunchKernelEx"));
  EXPECT_EQ(NeutralName("rcclGenericKernel"), "ncclGenericKernel");
  EXPECT_EQ(NeutralName("hipster::op"), "hipster::op");
  EXPECT_EQ(NeutralName("aten::mm"), "aten::mm");
}

TEST(KernelNames, TellCollectivesAndCopiesFromComputing) {
  for (const char* name :
       {"ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclKernel_AllGather_RING", "rcclGenericKernel",
        "void vllm::cross_device_reduce_1stage<c10::BFloat16, 8>(vllm::RankData*)",
        "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)"}) {
    EXPECT_TRUE(IsCommunicationKernel(name)) << name;
  }
  for (const char* name : {"void at::native::reduce_kernel<512, 1>", "sgemm", "moe_sum_kernel"}) {
    EXPECT_FALSE(IsCommunicationKernel(name)) << name;
  }
  EXPECT_TRUE(IsCopyKernel("__amd_rocclr_copyBuffer"));
  EXPECT_TRUE(IsCopyKernel("Memcpy HtoD (Pageable -> Device)"));
  EXPECT_FALSE(IsCopyKernel("void at::native::unrolled_elementwise_kernel<direct_copy_kernel>"));
  EXPECT_TRUE(IsGraphLaunch("hipGraphLaunch"));
  EXPECT_FALSE(IsGraphLaunch("cudaGraphInstantiate"));
}

TEST(KernelNames, SortIntoFamilies) {
  EXPECT_EQ(KernelFamily("Cijk_Alik_Bljk_HHS_BH_MT128x128x32"), "matmul");
  EXPECT_EQ(KernelFamily("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT"), "matmul");
  EXPECT_EQ(KernelFamily("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64>>"),
            "attention");
  EXPECT_EQ(KernelFamily("void cutlass__5x_cudnn::Kernel<cutlass_tensorop_conv2d_fprop>"),
            "convolution");
  EXPECT_EQ(KernelFamily("void at::native::vectorized_layer_norm_kernel<float>"), "normalization");
  EXPECT_EQ(KernelFamily("ncclDevKernel_AllReduce"), "communication");
  EXPECT_EQ(KernelFamily("void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add>"),
            "elementwise");
  EXPECT_EQ(KernelFamily("my_kernel"), "other");
}

TEST(KernelNames, AreShortForPeople) {
  EXPECT_EQ(ShortKernelName("void at::native::(anonymous namespace)::sum<float>(float*, int)"),
            "at::native::sum<float>");
  EXPECT_EQ(ShortKernelName("Memcpy HtoD (Pageable -> Device)"),
            "Memcpy HtoD (Pageable -> Device)");
  EXPECT_EQ(ShortKernelName(std::string(200, 'k')).size(), 80U);
  EXPECT_EQ(ShortKernelName("unclosed<" + std::string(50, 'x')).substr(0, 9), "unclosed<");
}

}  // namespace
}  // namespace msprobe::analysis::perf
