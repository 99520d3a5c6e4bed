"""A detector's kernels are told apart by their names, and overlapping ones do not count twice."""

from __future__ import annotations

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
NAMES = {
    "copies and zeros": ("Memcpy DtoD (Device -> Device)", "Memset (Device)"),
    "detection operators": (
        "void opsmith::ops::roi_align::gather<float>(opsmith::View<float, 4>)",
        "void vision::ops::(anonymous namespace)::roi_align_forward_kernel_impl<float>(int, float const*)",
        "void opsmith::ops::deform_conv2d::product<c10::BFloat16>(int)",
    ),
    "NCHW to NHWC and back": (
        "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)0>",
    ),
    "convolutions": (
        "sm90_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x32_warpgroupsize1x1x1_g1_execute",
        "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688wgrad_optimized_tf32_128x128_16x4_nhwc_align4>",
    ),
    "matrix products": (
        "sm80_xmma_gemm_tf32f32_tf32f32_f32_tn_n_tilesize64x64x32_stage4",
        "nvjet_tst_128x32_64x8_2x1_v_bz_TNT",
    ),
    "optimizer": ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedSgdMathFunctor>",),
    "sorting and choosing": (
        "void at::native::radixSortKVInPlace<2, -1, 16, 2>",
        "void at::native::index_elementwise_kernel<128, 4>",
    ),
    "reductions and losses": ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>",),
    "elementwise, batch norm among them": (
        "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>",
    ),
    "others": ("void something_new(float*)",),
}


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in NAMES.items() for name in names])
def test_a_kernel_has_its_kind(kind: str, name: str) -> None:
    from detection_kinds import by_kind

    assert by_kind([{"name": name, "seconds": 2.0, "launches": 3.0}]) == {kind: (2.0, 3.0)}


def test_kinds_are_added_up_and_the_longest_comes_first() -> None:
    from detection_kinds import by_kind

    kernels = [
        {"name": name, "seconds": 1.0, "launches": 1.0} for name in ("Memset (Device)", "a cudnn kernel", "conv")
    ]
    assert list(by_kind(kernels).items()) == [("convolutions", (2.0, 2.0)), ("copies and zeros", (1.0, 1.0))]


def test_the_gpu_is_busy_while_any_kernel_runs() -> None:
    from detection_profile import busy_s

    assert busy_s([(0.0, 10e-6), (5e-6, 7e-6), (8e-6, 12e-6), (20e-6, 21e-6)]) == pytest.approx(13e-6)
    assert busy_s([]) == 0.0


def test_a_table_has_every_kind_and_what_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import json

    import detection_tables

    def step(name: str, seconds: float) -> dict[str, object]:
        return {"seconds": 0.010, "busy_s": 0.008, "kernels": [{"name": name, "seconds": seconds, "launches": 4.0}]}

    steps = {"opsmith": step("conv", 0.006), "torchvision": step("Memset (Device)", 0.002)}
    row = {"model": "mask_rcnn_r50", "batch": 2, "precision": "tf32", "steps": steps}
    content = {"device": "NVIDIA H200", "torch": "2.11.0", "date": "2026-11-28T00:00:00", "rows": [row]}
    (tmp_path / "detection_profile.json").write_text(json.dumps(content))
    monkeypatch.setattr(detection_tables, "RESULTS", tmp_path)
    text = detection_tables.profile_figures()
    assert "| Mask R-CNN R50-FPN, batch 2, fp32 with TF32 | opsmith | torchvision |" in text
    assert "| convolutions | 6.00 (4) | 0.00 (0) |" in text
    assert "| copies and zeros | 0.00 (0) | 2.00 (4) |" in text
    assert "| no kernel runs | 2.00 | 2.00 |" in text
    assert "| **a step** | 10.00 | 10.00 |" in text


def test_a_long_name_is_cut_between_words() -> None:
    from detection_profile import NAME_LENGTH, shortened

    name = "void kernel<" + "at::native::Functor, " * 20
    assert len(shortened(name)) <= NAME_LENGTH + 1
    assert name.startswith(shortened(name))
    assert not shortened(name)[-1].isalpha()
    assert shortened("void short(int)") == "void short(int)"
