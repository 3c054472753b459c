//! Names that differ, as PyTorch, CUTLASS and Triton give them to their kernels.

use super::super::shorten;
use super::*;
use proptest::prelude::*;

/// Returns the demangled name of one of PyTorch's elementwise kernels.
fn vectorized(functor: &str) -> String {
    format!(
        "void at::native::vectorized_elementwise_kernel<4, at::native::{functor}, std::array<char*, 3ul> >(int, \
         at::native::{functor}, std::array<char*, 3ul>)"
    )
}

/// Returns the demangled name of an elementwise kernel whose functor is a lambda.
fn nocast(outer: &str) -> String {
    let lambda = format!(
        "at::native::gpu_kernel_impl_nocast<at::native::{outer}(at::TensorIteratorBase&)::{{lambda()#3}}::operator()() \
         const::{{lambda()#7}}::operator()() const::{{lambda(float)#1}}>(at::TensorIteratorBase&, \
         at::native::{outer}(at::TensorIteratorBase&)::{{lambda()#3}}::operator()() const::{{lambda()#7}}::operator()() \
         const::{{lambda(float)#1}} const&)::{{lambda(int)#1}}"
    );
    format!("void at::native::elementwise_kernel<128, 2, {lambda}>(int, {lambda})")
}

fn real() -> Vec<String> {
    let functors = [
        "CUDAFunctor_add<float>",
        "CUDAFunctorOnSelf_add<float>",
        "CUDAFunctor_add<c10::BFloat16>",
        "FillFunctor<float>",
        "BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >",
        "AUnaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >",
    ];
    let mut names: Vec<String> = functors.into_iter().map(vectorized).collect();
    names.extend(["direct_copy_kernel_cuda", "sqrt_kernel_cuda", "tanh_backward_kernel_cuda"].map(nocast));
    for tile in ["128x128x64", "256x128x64", "128x256x64"] {
        for layout in ["tnn", "nnn", "ntn"] {
            names.push(format!(
                "sm90_xmma_gemm_bf16bf16_bf16f32_f32_{layout}_n_tilesize{tile}_warpgroupsize1x1x1_execute_segment_k_off_\
                 kernel__5x_cublas"
            ));
            names.push(format!(
                "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_{tile}_32x3_{layout}_align8>(\
                 cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_{tile}_32x3_{layout}_align8::Params)"
            ));
        }
    }
    names.extend((0..12).map(|n| format!("triton_poi_fused__to_copy_add_mul_native_layer_norm_{n}")));
    names.push("triton_red_fused__to_copy_add_mul_native_layer_norm_1".to_owned());
    names.push("triton_per_fused_sum_1d2d3d4d5d6d7d8d9d".to_owned());
    names
}

fn short(names: &[String], width: usize) -> Vec<String> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    distinct(&names, width, shorten)
}

fn assert_apart(names: &[String], width: usize) {
    let short = short(names, width);
    for (one, name) in short.iter().zip(names) {
        assert!(columns(one) <= width, "{one} of {name} is wider than {width}");
        for (other, theirs) in short.iter().zip(names) {
            assert_eq!(one == other, name == theirs, "{width}: {one} is {name} and {theirs}");
        }
    }
}

#[test]
fn the_functors_of_elementwise_kernels_are_kept() {
    let names = ["CUDAFunctor_add<float>", "CUDAFunctor_mul<float>", "FillFunctor<int>"].map(vectorized);
    assert_eq!(
        short(&names, 40),
        [
            "vectorized_..CUDAFunctor_add<float>, ..>",
            "vectorized_..CUDAFunctor_mul<float>, ..>",
            "vectorized_elementwise_..FillFunctor<..>",
        ]
    );
    let copies = ["direct_copy_kernel_cuda", "sqrt_kernel_cuda"].map(nocast);
    assert_eq!(
        short(&copies, 48),
        [
            "elementwise_kernel<..direct_copy_kernel_cuda(..>",
            "elementwise_kernel<128, 2,..sqrt_kernel_cuda(..>"
        ]
    );
}

#[test]
fn real_names_that_differ_look_different() {
    for width in [24, 28, 32, 40, 56, 80, 120, 400] {
        assert_apart(&real(), width);
    }
}

#[test]
fn names_that_differ_only_in_what_is_never_shown_are_numbered() {
    let names = ["f\u{200b}".to_owned(), "f\u{200c}".to_owned(), "f\u{200b}".to_owned()];
    assert_eq!(short(&names, 24), ["f?", "f?#2", "f?"]);
    let names = ["void k(int)".to_owned(), "void k(float)".to_owned()];
    assert_eq!(short(&names, 24), ["void k(int)", "void k(float)"], "overloads keep their parameters");
}

proptest! {
    #[test]
    fn distinct_names_have_distinct_short_names(
        names in prop::collection::vec("(void )?[ab]{1,3}(::[ab]{1,20})?(<[ab<>, ]{0,40}>)?(\\([ab, ]{0,6}\\))?", 0..40),
        width in 24usize..60,
    ) {
        assert_apart(&names, width);
    }

    #[test]
    fn any_texts_do(names in prop::collection::vec(".{0,60}", 0..20), width in 24usize..60) {
        assert_apart(&names, width);
    }
}
