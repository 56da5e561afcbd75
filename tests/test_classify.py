"""Kernel names, as found in real traces, and what they do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chakra_core.classify import classify_name, classify_names, comm_op_of, comm_ops_of, kernel_head, load_rules
from chakra_core.errors import ChakraError
from chakra_core.schema import Category, CommOp

ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<c10::Half>, "
    "at::detail::Array<char*, 1> >(int, at::native::FillFunctor<c10::Half>)"
)
REDUCE = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::NormTwoOps<float, float, float>, "
    "unsigned int, float, 4> >(at::native::ReduceOp<float>)"
)
IMPLICIT = "_ZN19cutlass_cudnn_train6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS1_11threadblock22Implicit"
CK_CONV = "_ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_multiple_abd_xdl_cshuffleINS_35Gr"

REAL = {
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn": Category.GEMM,
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x256_32x3_nt_align1>(cutlass_80_tensorop)": Category.GEMM,
    "volta_sgemm_64x32_sliced1x4_tn": Category.GEMM,
    "void gemv2T_kernel_val<int, int, float>(cublasGemvParamsEx)": Category.GEMM,
    "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __half>(cublasGemv)": Category.GEMM,
    "void cublasLt::splitKreduce_kernel<32, 16, int, float>(cublasSplitKParams)": Category.GEMM,
    "nvjet_tst_64x16_64x16_2x4_2cta_h_bz_bias_TNT": Category.GEMM,
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1": Category.GEMM,
    "Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT16x16x256_MI16x16x1_SN_LDSB0": Category.GEMM,
    "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu": Category.GEMM,
    "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1": Category.GEMM,
    "triton_tem_fused_addmm_3": Category.GEMM,
    "dot_general.12": Category.GEMM,
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128> >(Flash)": Category.ATTENTION,
    "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel)": Category.ATTENTION,
    "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128": Category.ATTENTION,
    "_fwd_kernel_aligned_0d1d2d3d45d6de7de8c9de10de11c12de": Category.ATTENTION,
    "attn_fwd": Category.ATTENTION,
    "kernel_unified_attention_3d": Category.ATTENTION,
    "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1": Category.CONVOLUTION,
    "sm80_xmma_dgrad_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc": Category.CONVOLUTION,
    "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, false>(int, int)": Category.CONVOLUTION,
    "void cudnn::cnn::wgrad_alg0_engine<float, 128, 5, 5, 3, 3, 3, false, 512>(int)": Category.CONVOLUTION,
    "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8_ws1x1": Category.CONVOLUTION,
    IMPLICIT: Category.CONVOLUTION,
    CK_CONV: Category.CONVOLUTION,
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)": Category.NORMALISATION,
    "MIOpenBatchNormFwdTrainSpatialMeanVariance": Category.NORMALISATION,
    "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>(cudnnTensorStruct)": Category.NORMALISATION,
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10>(float*)": Category.NORMALISATION,
    "triton_red_fused_add_mean_mul_pow_rsqrt_0": Category.NORMALISATION,
    "void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*)": Category.NORMALISATION,
    ELEMENTWISE: Category.ELEMENTWISE,
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<bool, unsigned int, 3>(bool*)": Category.ELEMENTWISE,
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorList<2> >(T)": Category.ELEMENTWISE,
    "void multi_tensor_apply_kernel<TensorListMetadata<2>, L2NormFunctor<float> >(T)": Category.REDUCTION,
    "triton_poi_fused_add_cos_sin_0": Category.ELEMENTWISE,
    "triton__0d1d2d3d4d5d6d7d89de": Category.ELEMENTWISE,
    "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)": Category.ELEMENTWISE,
    "void fbgemm_gpu::_compute_FP8_quantize_cuda_kernel<float>(float const*)": Category.ELEMENTWISE,
    "batched_transpose_64x64_pack_4x4_ediv_4x4_bf16": Category.ELEMENTWISE,
    "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(params)": Category.ELEMENTWISE,
    REDUCE: Category.REDUCTION,
    "void at_cuda_detail::cub::DeviceReduceSingleTileKernel<Policy, int*>(int*)": Category.REDUCTION,
    "void at::native::(anonymous namespace)::max_pool_forward_nchw<float, int>(int)": Category.REDUCTION,
    "_topk_forward": Category.REDUCTION,
    "void dot_kernel<float, 128, 0, cublasDotParams>(cublasDotParams)": Category.REDUCTION,
    "void split_embedding_codegen_forward_unweighted_kernel<float, float>(float)": Category.EMBEDDING,
    "void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long>(T)": Category.EMBEDDING,
    "void fbgemm_gpu::permute_2D_data_kernel<false, long, long, float>(int)": Category.EMBEDDING,
    "void at::native::_scatter_gather_elementwise_kernel<128, 4, scatter>(int)": Category.EMBEDDING,
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)": Category.COMMUNICATION,
    "void rcclGenericKernel<1, false>(ncclDevComm*, unsigned long)": Category.COMMUNICATION,
    "void vllm::cross_device_reduce_2stage<__half, 8>(vllm::RankData*)": Category.COMMUNICATION,
    "oneccl_allreduce_pcie_usm": Category.COMMUNICATION,
    "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*)": Category.COMMUNICATION,
    "nvshmemi_transfer_rma_warp": Category.COMMUNICATION,
    "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(T)": Category.COMMUNICATION,
    "hcom_allReduce__123": Category.COMMUNICATION,
    "all-reduce-start.3": Category.COMMUNICATION,
    "hipMemcpyAsync": Category.COPY,
    "CopyHostToDevice": Category.COPY,
    "__amd_rocclr_copyBuffer": Category.COPY,
    "Memcpy DtoD (Device -> Device)": Category.COPY,
    "dma_request": Category.COPY,
    "__amd_rocclr_fillBufferAligned": Category.MEMSET,
    "Memset (Device)": Category.MEMSET,
    "event_wait": Category.RUNTIME,
    "pe_exe": Category.OTHER,
    "at::cuda::(anonymous namespace)::spin_kernel(long)": Category.OTHER,
    "my_own_kernel": Category.OTHER,
}  # fmt: skip

COLLECTIVES = {
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)": CommOp.ALL_REDUCE,
    "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": CommOp.REDUCE_SCATTER,
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)": CommOp.ALL_GATHER,
    "ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*)": CommOp.BROADCAST,
    "ncclKernel_Reduce_RING_LL_Sum_float": CommOp.REDUCE,
    "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)": CommOp.UNKNOWN,
    "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)": CommOp.UNKNOWN,
    "void vllm::cross_device_reduce_2stage<__half, 8>(vllm::RankData*)": CommOp.ALL_REDUCE,
    "nccl:all_reduce": CommOp.ALL_REDUCE,
    "nccl:_all_gather_base": CommOp.ALL_GATHER,
    "nccl:reduce_scatter_tensor_coalesced": CommOp.REDUCE_SCATTER,
    "nccl:all_to_all": CommOp.ALL_TO_ALL,
    "nccl:send 0->1": CommOp.SEND,
    "nccl:recv 0<-1": CommOp.RECV,
    "gloo:recv": CommOp.RECV,
    "gloo:recvAnySource": CommOp.RECV,
    "gloo:barrier": CommOp.BARRIER,
    "c10d::allreduce_": CommOp.ALL_REDUCE,
    "c10d::_reduce_scatter_base_": CommOp.REDUCE_SCATTER,
    "c10d::alltoall_base_": CommOp.ALL_TO_ALL,
    "c10d::send": CommOp.SEND,
    "_c10d_functional::all_gather_into_tensor": CommOp.ALL_GATHER,
    "_allgather_base": CommOp.ALL_GATHER,
    "allreduce_coalesced": CommOp.ALL_REDUCE,
    "all_to_allv": CommOp.ALL_TO_ALL,
    "allgather_into_tensor_coalesced": CommOp.ALL_GATHER,
    "reduce_scatter_tensor": CommOp.REDUCE_SCATTER,
    "broadcast_oop": CommOp.BROADCAST,
    "gather": CommOp.GATHER,
    "scatter": CommOp.SCATTER,
    "reduce": CommOp.REDUCE,
    "recv": CommOp.RECV,
    "all-to-all.4": CommOp.ALL_TO_ALL,
    "wait": CommOp.NONE,
    "aten::gather": CommOp.NONE,
    "aten::index_select": CommOp.NONE,
    "void at::native::vectorized_gather_kernel<16, long>(char*)": CommOp.NONE,
    REDUCE: CommOp.NONE,
    "c10d::wait_tensor": CommOp.NONE,
}


@pytest.mark.parametrize(("name", "category"), REAL.items(), ids=range(len(REAL)))
def test_real_names_get_their_category(name, category):
    assert classify_name(name) is category


@pytest.mark.parametrize(("name", "op"), COLLECTIVES.items(), ids=COLLECTIVES)
def test_collectives_are_told_by_name(name, op):
    assert comm_op_of(name) is op


def test_many_names_at_once():
    codes = classify_names(["nvjet_x", "no such thing", "nvjet_x"])
    assert codes.dtype == np.int8
    assert codes.tolist() == [Category.GEMM, Category.OTHER, Category.GEMM]
    assert comm_ops_of(["nccl:send 0->1", "aten::mm"]).tolist() == [CommOp.SEND, CommOp.NONE]
    assert classify_names([]).shape == (0,)


def test_head_of_a_kernel_name():
    assert kernel_head("void (anonymous namespace)::softmax_warp_forward<float, 10>(float*)") == "softmax_warp_forward"
    assert kernel_head("<lambda>") == "<lambda>"
    assert kernel_head("") == ""


def test_own_rules_come_first(tmp_path: Path):
    own = tmp_path / "own.toml"
    own.write_text('[[rule]]\ncategory = "attention"\nmatch = "^nvjet_mine"\n', encoding="utf-8")
    assert classify_name("nvjet_mine_1", own) is Category.ATTENTION
    assert classify_name("nvjet_other", own) is Category.GEMM
    assert classify_name("nvjet_mine_1") is Category.GEMM


@pytest.mark.parametrize(
    "text",
    [
        '[[rule]]\ncategory = "gem"\nmatch = "x"\n',
        '[[rule]]\ncategory = "gemm"\nmatch = "("\n',
        '[[rule]]\ncategory = "gemm"\n',
        '[[rule]]\ncategory = "gemm"\nmatch = "x"\non = "tail"\n',
        "[[rule",
    ],
)
def test_bad_rules_are_refused_with_the_file_named(tmp_path: Path, text: str):
    own = tmp_path / "own.toml"
    own.write_text(text, encoding="utf-8")
    with pytest.raises(ChakraError, match=r"own\.toml"):
        load_rules(own)


def test_hostile_names_take_no_time():
    for name in ("a" * 10**6, "<" * 10**6, "(" * 5000, "_fused_" * 10**5, "mean_" * 10**5, "moe::" * 10**5):
        assert classify_name(name) in Category
        assert comm_op_of(name) in CommOp
