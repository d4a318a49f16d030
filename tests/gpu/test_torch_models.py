"""gemmsmith.torch.Linear, optimize and use."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from torch_device import KIND, ON_GPU, WHERE, close, randn, reference_without_gpu, torch

import gemmsmith
from gemmsmith.errors import UsageError

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]
__all__ = ["reference_without_gpu"]
F = torch.nn.functional


class Small(torch.nn.Module):
    def __init__(self, vocabulary: int = 51, width: int = 32) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(vocabulary, width)
        self.first = torch.nn.Linear(width, 4 * width)
        self.second = torch.nn.Linear(4 * width, width, bias=False)
        self.head = torch.nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Any) -> Any:
        x = self.embedding(tokens)
        return self.head(x + self.second(F.gelu(self.first(x))))


def model(**sizes: int) -> Any:
    torch.manual_seed(0)
    return Small(**sizes).to(KIND)


def tokens(*shape: int, vocabulary: int = 51) -> Any:
    return torch.randint(0, vocabulary, shape, generator=torch.Generator().manual_seed(1)).to(KIND)


@pytest.mark.skipif(not ON_GPU, reason="needs an NVIDIA GPU")
def test_linear_is_torchs() -> None:
    torch.manual_seed(0)
    theirs = torch.nn.Linear(33, 17).to(KIND)
    torch.manual_seed(0)
    mine = gemmsmith.torch.Linear(33, 17).to(KIND)
    assert all(torch.equal(x, y) for x, y in zip(mine.parameters(), theirs.parameters(), strict=True))
    assert isinstance(mine, torch.nn.Linear)
    x = randn(2, 5, 33)
    close(mine(x), theirs(x))
    mine.load_state_dict(theirs.state_dict())
    compiled = torch.compile(mine, fullgraph=True)
    close(compiled(x), theirs(x))
    mine(x).sum().backward()
    theirs(x).sum().backward()
    close(mine.weight.grad, theirs.weight.grad)
    close(mine.bias.grad, theirs.bias.grad)


# --- use


def test_use_takes_every_product_and_reports() -> None:
    a, b, bias, x, w = randn(6, 5), randn(5, 7), randn(7), randn(2, 6, 5), randn(7, 5)
    wide = a.double()
    with gemmsmith.torch.use(device=WHERE) as used:
        found = [torch.mm(a, b), a @ b, a.matmul(b), torch.addmm(bias, a, b), torch.addmm(bias, a, b, beta=2, alpha=3),
                 torch.bmm(x, x.mT), F.linear(x, w, bias), x @ b, torch.nn.Linear(5, 3).to(KIND)(a)]  # fmt: skip
        double = wide @ wide.T
        torch.mm(a, b, out=torch.empty(6, 7, device=KIND))
    expected = [a @ b, a @ b, a @ b, torch.addmm(bias, a, b), torch.addmm(bias, a, b, beta=2, alpha=3),
                torch.bmm(x, x.mT), F.linear(x, w, bias), x @ b]  # fmt: skip
    for mine, other in zip(found, expected, strict=False):
        close(mine, other)
    close(double, wide @ wide.T)
    report = used.report()
    assert sum(each.calls for each in report.ours) == 9
    assert {(each.name, each.why) for each in report.forwarded} == {
        ("matmul", "torch.float64 is not computed by gemmsmith"), ("mm", "mm with out=")}  # fmt: skip
    assert "2 of" not in str(report).splitlines()[0] or report.forwarded
    torch.mm(a, b)
    assert used.report() == report  # nothing is counted after the block


def test_products_that_torch_refuses_are_refused_in_use() -> None:
    a, b = randn(6, 5), randn(5, 7)
    with gemmsmith.torch.use(device=WHERE):
        for call in (lambda: a @ a, lambda: torch.mm(a, b.half()), lambda: torch.mm(a[None], b),
                     lambda: torch.bmm(a, b)):  # fmt: skip
            with pytest.raises(RuntimeError):
                call()


def test_gradients_of_use_after_the_block() -> None:
    plain, mine, batch = model(), model(), tokens(3, 8)
    with gemmsmith.torch.use(device=WHERE) as used:
        loss = mine(batch).square().mean()
    loss.backward()
    plain(batch).square().mean().backward()
    assert [each.ours for each in used.report().routes] == [True] * 3
    for one, other in zip(mine.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-5)


def test_use_under_autocast_and_no_grad() -> None:
    plain, batch = model(), tokens(3, 8)
    with torch.no_grad(), torch.autocast(KIND, torch.bfloat16):
        expected = plain(batch)
        with gemmsmith.torch.use(device=WHERE) as used:
            found = plain(batch)
    assert found.dtype is torch.bfloat16
    close(found, expected)
    assert all(each.ours and each.what.endswith("bfloat16") for each in used.report().routes)


def test_compile_inside_use() -> None:
    plain, batch = model(), tokens(3, 8)

    def run(x: Any) -> Any:
        with gemmsmith.torch.use(device=WHERE):
            return plain(x)

    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    close(compiled(batch), plain(batch))
    torch._dynamo.reset()


def test_faster_only_forwards_the_rest() -> None:
    a, b = randn(6, 5), randn(5, 7)
    with gemmsmith.torch.use(device=WHERE, faster_only=True) as used:
        close(a @ b, torch.matmul(a.double(), b.double()).float())
    assert not used.report().ours


# --- optimize


def test_optimize_leaves_alone_what_is_not_faster() -> None:
    plain, mine = model(), model()
    assert gemmsmith.torch.optimize(mine, verbose=False) is mine
    report = gemmsmith.torch.report(mine)
    assert {each.name for each in report.routes} == {"first", "second", "head"}
    assert not report.ours
    assert all(type(each) is not gemmsmith.torch.Linear for each in mine.modules())
    close(mine(tokens(3, 8)), plain(tokens(3, 8)))
    with pytest.raises(UsageError, match="no report"):
        gemmsmith.torch.report(plain)
    with pytest.raises(UsageError, match=r"not a torch\.nn\.Module"):
        gemmsmith.torch.optimize(lambda x: x)


def test_subclasses_of_linear_are_named_and_left_alone() -> None:
    class Scaled(torch.nn.Linear):
        def forward(self, x: Any) -> Any:
            return 2 * super().forward(x)

    mine = torch.nn.Sequential(Scaled(5, 7), torch.nn.ReLU()).to(KIND)
    report = gemmsmith.torch.report(gemmsmith.torch.optimize(mine, verbose=False))
    assert "Scaled is a subclass of Linear" in report.routes[0].why


def test_replaced_layers_keep_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if all were faster: the same objects, parameters, ties, hooks, state and results."""
    from gemmsmith.frameworks.torch import layers, optimize_model
    from gemmsmith.frameworks.torch.judge import Verdict

    monkeypatch.setattr(optimize_model, "expected", lambda *_: Verdict(True, "for a test"))
    if not ON_GPU:
        monkeypatch.setattr(layers, "takes", lambda *_: False)
    plain, mine, called = model(), model(), []
    before = {name: id(each) for name, each in mine.named_parameters()}
    mine.first.register_forward_hook(lambda *_: called.append(1))
    gemmsmith.torch.optimize(mine, verbose=False)
    assert {name: id(each) for name, each in mine.named_parameters()} == before
    assert mine.head.weight is mine.embedding.weight
    assert list(mine.state_dict()) == list(plain.state_dict())
    assert isinstance(mine.first, torch.nn.Linear)
    close(mine(tokens(3, 8)), plain(tokens(3, 8)))
    assert called == [1]
    report = gemmsmith.torch.report(mine)
    assert len(report.ours) == 3
    assert sum(each.calls for each in report.routes) == 3
    again = copy.deepcopy(mine)
    close(again(tokens(3, 8)), plain(tokens(3, 8)))
    assert type(gemmsmith.torch.restore(mine).first) is torch.nn.Linear


@pytest.mark.skipif(not ON_GPU, reason="needs an NVIDIA GPU")
class TestOnGpu:
    def test_an_unaligned_head_is_replaced_by_rule_and_by_measurement(self) -> None:
        sizes = {"vocabulary": 50257, "width": 768}
        for sample in (None, tokens(4, 256, vocabulary=50257)):
            mine = model(**sizes).bfloat16()
            mine.eval()
            gemmsmith.torch.optimize(mine, sample, rows=[1024], verbose=False)
            routes = {each.name: each for each in gemmsmith.torch.report(mine).routes}
            assert routes["head"].ours, routes["head"]
            if sample is None:
                assert not routes["first"].ours
            else:
                assert routes["head"].ratio > 1.5
                assert all(each.ratio > 1.03 for each in routes.values() if each.ours)
            x = tokens(4, 256, vocabulary=50257)
            plain = model(**sizes).bfloat16()
            assert float((mine(x) - plain(x)).abs().max()) < 0.05 * float(plain(x).abs().max())
            mine(x[:1, :1])
            assert (
                any("outside the sizes" in each.why for each in gemmsmith.torch.report(mine).routes) or sample is None
            )

    def test_fp32_layers_are_replaced_unless_tf32_is_allowed(self) -> None:
        layer = torch.nn.Sequential(torch.nn.Linear(4096, 4096)).to(KIND)
        gemmsmith.torch.optimize(layer, rows=[4096], verbose=False)
        assert gemmsmith.torch.report(layer).ours
        torch.set_float32_matmul_precision("high")
        try:
            layer = torch.nn.Sequential(torch.nn.Linear(4096, 4096)).to(KIND)
            gemmsmith.torch.optimize(layer, rows=[4096], verbose=False)
            assert "TF32" in gemmsmith.torch.report(layer).routes[0].why
        finally:
            torch.set_float32_matmul_precision("highest")
