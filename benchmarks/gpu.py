"""How fast is `decompose` on a GPU? Shares of the bandwidth of a copy, in one run.

    python benchmarks/gpu.py [--quick] [--write] [--only PART]

Needs an NVIDIA GPU and torch with CUDA. A share is the bytes read and written, the members once and
the results once, by the time that the device takes, over the same of a copy of the members. Device
times are between CUDA events, the median of many calls without checks, whose kernels follow each
other; a whole call is timed on the host, with its checks and the wait for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import track

import scorewise as sw
import textbook
from gpu_imagenet import QUICK, Size, imagenet
from measuring import HERE, RULES, Sheet, options, write_between

SHAPES = [(4_000_000, 20, 2), (1_000_000, 20, 10), (100_000, 20, 100), (50_000, 20, 1_000)]
# More instances of few classes, or a call would take as long as what torch does on the host.
GRADIENT_SHAPES = [
    (16_000_000, 20, 2),
    (8_000_000, 20, 10),
    (800_000, 20, 100),
    (80_000, 20, 1_000),
]
# Of the copy's bandwidth: the four rules together, for each number of classes.
AT_LEAST = {2: 50, 10: 60, 100: 75, 1_000: 75}
ALONE_AT_LEAST, TOP_K_AT_LEAST = 50, 30
LOGITS_AT_LEAST = 80  # of the speed from probabilities
OVER_EAGER, OVER_COMPILED = 8, 2  # times as fast
GRADIENT_AT_MOST = 3  # times the forward pass
SMALL_AT_MOST = 0.5  # ms
MEMORY_AT_MOST = 10  # percent of the input

ROUNDS = 15
N_RESULTS = 12  # of an instance, under four rules
_BLOCK = 40_000_000  # numbers that are drawn at once

Work = Callable[[], object]
Tensor = Any  # of torch, on the GPU


def draw(kind: str, n: int, m: int, k: int) -> Tensor:
    """Members (n, m, k) on the GPU, of the kinds that measuring.py describes."""
    generator = torch.Generator("cuda").manual_seed(0)
    probs = torch.empty(n, m, k, device="cuda")
    for part in probs.split(max(1, _BLOCK // (m * k))):
        rows = len(part)
        if kind == "one-hot":
            hot = torch.randint(k, (rows, m, 1), device="cuda", generator=generator)
            part.zero_().scatter_(-1, hot, 1.0)
            continue
        noise = {"doubtful": 2.0, "near-agreeing": 0.05}[kind]
        logits = 2 * torch.randn(rows, 1, k, device="cuda", generator=generator)
        logits = logits + noise * torch.randn(rows, m, k, device="cuda", generator=generator)
        torch.softmax(logits, -1, out=part)
    return probs


def device_time(work: Work, ahead: Work, rounds: int = ROUNDS) -> float:
    """The median milliseconds of the device; what is done ahead lets the host run ahead."""
    work()
    torch.cuda.synchronize()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(rounds + 1)]
    for _ in range(5):
        ahead()
    for event in events[:-1]:
        event.record()
        work()
    events[-1].record()
    torch.cuda.synchronize()
    return float(median(start.elapsed_time(end) for start, end in pairwise(events)))


def wall_time(work: Work, rounds: int = ROUNDS) -> float:
    """The median milliseconds of a call that the host waits for."""
    times = []
    for _ in range(rounds + 3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return median(times[3:])


def held(work: Work, probs: Tensor) -> float:
    """The most memory that is held besides members and results, in percent of the members."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    results = work()
    torch.cuda.synchronize()
    beside = torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated()
    del results
    return 100 * float(beside) / float(probs.numel() * probs.element_size())


class Copy:
    """A copy of some members, and what it moves in a millisecond."""

    def __init__(self, probs: Tensor) -> None:
        self.probs, self.other = probs, torch.empty_like(probs)
        self.bandwidth = 2 * self.n_bytes(0) / device_time(self.run, self.run)  # bytes/ms

    def run(self) -> object:
        """Copy them."""
        return self.other.copy_(self.probs)

    def n_bytes(self, n_results: int) -> float:
        """What the members have, and so many results of each instance."""
        probs = self.probs
        return float(probs.numel() * probs.element_size() + 4 * n_results * len(probs))

    def share(self, milliseconds: float, n_results: int) -> float:
        """The bytes of members and results by the time, in percent of the copy's."""
        return 100 * self.n_bytes(n_results) / milliseconds / self.bandwidth


def judged(text: str, is_met: bool) -> str:
    return text if is_met else f"no: {text}"


def percent(share: float, at_least: float | None = None) -> str:
    return judged(f"{share:.0f} %", at_least is None or round(share) >= at_least)


def name_of(shape: Sequence[int]) -> str:
    return " × ".join(f"{x:,}" for x in shape)


def four_rules(shapes: Sequence[tuple[int, int, int]]) -> Sheet:
    """Total, aleatoric and epistemic uncertainty under the four rules of the paper."""
    rows = []
    for shape in shapes:
        at_least = AT_LEAST[shape[-1]]
        for kind in ("doubtful", "one-hot", "near-agreeing"):
            probs = draw(kind, *shape)
            copy = Copy(probs)
            quick = device_time(partial(sw.decompose, probs, RULES, check=False), copy.run)
            whole = wall_time(partial(sw.decompose, probs, RULES))
            wanted = at_least / 2 if kind == "near-agreeing" else at_least
            row = [name_of(shape), kind, f"{copy.bandwidth / 1e9:.2f} TB/s"]
            row += [percent(copy.share(quick, N_RESULTS), wanted), f"{wanted:g} %"]
            row.append(percent(copy.share(whole, N_RESULTS)))
            rows.append([*row, f"{held(partial(sw.decompose, probs, RULES), probs):.1f} %"])
    headings = ["members", "kind", "copy", "of the copy", "target", "whole call", "memory"]
    return Sheet("Four rules together, float32", headings, rows, n_labels=2)


def rules_of(k: int) -> dict[str, Any]:
    """Rules for k classes, by name."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(k, k))
    rules: dict[str, Any] = {name: name for name in [*RULES, "tsallis:1.5", "pseudospherical:3"]}
    rules["weighted log"] = sw.rules.weighted_log(rng.uniform(1, 3, k))
    rules["rps"] = "rps"
    rules["cost matrix, 5 actions"] = sw.rules.cost_matrix(rng.uniform(0, 3, (k, 5)))
    if k > 5:
        rules["top-k:5"] = "top-k:5"
    if k <= 100:
        rules["quadratic"] = sw.rules.quadratic(root @ root.T / k)
    if k == 2:
        rules |= {"beta:0.5,2": "beta:0.5,2", "beta:1,1": "beta:1,1"}
    return rules


def each_rule(shapes: Sequence[tuple[int, int, int]]) -> Sheet:
    """Each rule alone."""
    cells: dict[str, dict[int, str]] = {}
    for shape in shapes:
        probs = draw("doubtful", *shape)
        copy = Copy(probs)
        for name, rule in rules_of(shape[-1]).items():
            quick = device_time(partial(sw.decompose, probs, rule, check=False), copy.run, 9)
            at_least = TOP_K_AT_LEAST if name.startswith("top") else ALONE_AT_LEAST
            wanted = None if name.startswith(("quadratic", "beta")) else at_least
            cells.setdefault(name, {})[shape[-1]] = percent(copy.share(quick, 3), wanted)
    classes = [shape[-1] for shape in shapes]
    rows = [[name, *(of.get(k, "") for k in classes)] for name, of in cells.items()]
    headings = ["rule", *(f"{k:,} classes" for k in classes)]
    return Sheet("Each rule alone, float32, doubtful members", headings, rows, n_labels=1)


def layouts(shapes: Sequence[tuple[int, int, int]]) -> Sheet:
    """Four rules from other layouts and numbers."""
    rows: dict[str, list[str]] = {}
    for shape in shapes:
        probs = draw("doubtful", *shape)
        copy = Copy(probs)
        n, m, _ = shape

        def of(
            values: Tensor, n_bytes: float, copy: Copy = copy, **options: Any
        ) -> tuple[float, str]:
            call = partial(sw.decompose, values, RULES, check=False, **options)
            quick = device_time(call, copy.run, 9)
            return quick, percent(100 * n_bytes / quick / copy.bandwidth)

        whole = copy.n_bytes(N_RESULTS)
        plain, text = of(probs, whole)
        rows.setdefault("(N, M, K)", []).append(text)
        first = probs.transpose(0, 1).contiguous()
        rows.setdefault("(M, N, K)", []).append(of(first, whole, member_axis=0)[1])
        del first
        rows.setdefault("every second instance", []).append(of(probs[::2], whole / 2)[1])
        weights = torch.rand(m, device="cuda")
        rows.setdefault("weights (M,)", []).append(of(probs, whole, weights=weights)[1])
        weights = torch.rand(n, m, device="cuda")
        rows.setdefault("weights (N, M)", []).append(of(probs, whole, weights=weights)[1])
        logits = probs.log()
        from_logits, text = of(logits, whole, from_logits=True)
        del logits
        share = 100 * plain / from_logits
        text = f"{text}, {share:.0f} % of the speed from probabilities"
        rows.setdefault("logits", []).append(judged(text, round(share) >= LOGITS_AT_LEAST))
        for dtype in (torch.float16, torch.bfloat16):
            half = torch.softmax(probs.log(), -1).to(dtype)
            n_bytes = whole - 2 * probs.numel()
            rows.setdefault(str(dtype).rpartition(".")[2], []).append(of(half, n_bytes)[1])
            del half
    headings = ["layout", *(name_of(shape) for shape in shapes)]
    table = [[name, *cells] for name, cells in rows.items()]
    return Sheet("Four rules, other layouts and numbers", headings, table, n_labels=1)


def over_torch(shapes: Sequence[tuple[int, int, int]]) -> Sheet:
    """Four rules, over the textbook formulas in torch, eager and compiled."""
    rows = []
    for shape in shapes:
        probs = draw("doubtful", *shape)
        copy = Copy(probs)
        ours = device_time(partial(sw.decompose, probs, RULES, check=False), copy.run)
        del copy.other
        torch.cuda.empty_cache()
        eager_call = partial(textbook.decompose, torch, probs)
        eager = device_time(eager_call, eager_call, 5)
        compiled = torch.compile(partial(textbook.decompose, torch), dynamic=False)
        compiled_call = partial(compiled, probs)
        optimised = device_time(compiled_call, compiled_call, 5)
        row = [name_of(shape), judged(f"{eager / ours:.1f}", eager >= OVER_EAGER * ours)]
        rows.append([*row, judged(f"{optimised / ours:.1f}", optimised >= OVER_COMPILED * ours)])
        torch.compiler.reset()
    headings = ["members", "over torch", "over torch.compile"]
    return Sheet("Four rules: how many times as fast", headings, rows, n_labels=1)


def gradients(shapes: Sequence[tuple[int, int, int]]) -> Sheet:
    """The forward pass with its backward pass, over the forward pass alone.

    The floor is that of a backward pass at the bandwidth of the copy.
    """
    rows = []
    for shape in shapes:
        probs = draw("doubtful", *shape)
        copy = Copy(probs)
        forward = device_time(partial(sw.decompose, probs, RULES, check=False), copy.run)
        share = copy.share(forward, N_RESULTS)
        row = [name_of(shape), f"{share:.0f} %", f"{1 + 2 * share / 100:.2f}"]
        for n_components in (1, 3):
            probs.requires_grad_(True)
            ones = torch.ones(len(probs), device="cuda")

            def both(n: int = n_components, probs: Tensor = probs, ones: Tensor = ones) -> object:
                results = sw.decompose(probs, RULES, check=False).values()
                parts = [x for result in results for x in list(result)[3 - n :]]
                return torch.autograd.grad(parts, probs, [ones] * len(parts))

            times = device_time(both, copy.run, 9) / forward
            probs.requires_grad_(False)
            row.append(judged(f"{times:.2f}", round(times, 2) <= GRADIENT_AT_MOST))
        rows.append(row)
    headings = ["members", "forward, of the copy", "floor", "epistemic parts", "all parts"]
    return Sheet("Forward and backward over forward, four rules", headings, rows, n_labels=1)


def small_and_arrays() -> Sheet:
    """A batch of 64 rows by each path, and the array path's memory."""
    from scorewise.kernels import KERNELS

    everything = dict(KERNELS)
    small = draw("doubtful", 64, 20, 100)
    rules = {**rules_of(100), "four rules": RULES}
    columns, memory = [], []
    try:
        for missing in ("", "cuda", "host"):
            KERNELS.pop(missing, None)
            calls = (partial(sw.decompose, small, rule) for rule in rules.values())
            columns.append([wall_time(call, 31) for call in calls])
        for shape in SHAPES[:3]:
            probs = draw("doubtful", shape[0] // 2, *shape[1:])
            share = held(partial(sw.decompose, probs, RULES), probs)
            text = judged(f"{share:.0f} %", share <= MEMORY_AT_MOST)
            memory.append([f"memory of the array path, {name_of(probs.shape)}", "", "", text])
            del probs
    finally:
        KERNELS.update(everything)
    rows = []
    for name, *times in zip(rules, *columns, strict=True):
        is_judged = name != "four rules"
        shown = (judged(f"{t:.2f} ms", t <= SMALL_AT_MOST or not is_judged) for t in times)
        rows.append([name, *shown])
    headings = ["64 × 20 × 100, whole calls", "CUDA kernel", "copied to the host", "array path"]
    return Sheet("Small batches, and the array path", headings, [*rows, *memory], n_labels=1)


def image_net(size: Size) -> Sheet:
    """Dropout at the size of ImageNet, accumulated as it is drawn and stacked."""
    rows = []
    for row in imagenet(size):
        change = row.largest_difference
        shown = "other draws" if change is None else f"{change:.1e}"
        rows.append([row.way, f"{row.seconds:.3f}", f"{row.peak_bytes / 1e9:.2f}", shown])
    shape = f"{size.rows:,} rows, {size.members} draws, {size.classes:,} classes"
    headings = [shape, "seconds", "memory of the GPU, GB", "largest difference"]
    return Sheet("Members accumulated as they are drawn, or stacked", headings, rows, n_labels=1)


def main() -> None:
    """Measure, print, and write the tables into gpu.md if asked to."""
    parts: dict[str, Callable[[], Sheet]] = {}
    chosen = options(
        __doc__, ["four", "alone", "layouts", "torch", "gradients", "small", "imagenet"]
    )
    divisor = 100 if chosen.quick else 1
    shapes = [(n // divisor, m, k) for n, m, k in SHAPES]
    gradient_shapes = [(n // divisor, m, k) for n, m, k in GRADIENT_SHAPES]
    parts["four"] = partial(four_rules, shapes)
    parts["alone"] = partial(each_rule, shapes)
    parts["layouts"] = partial(layouts, shapes)
    parts["torch"] = partial(over_torch, shapes)
    parts["gradients"] = partial(gradients, gradient_shapes)
    parts["small"] = small_and_arrays
    parts["imagenet"] = partial(image_net, QUICK if chosen.quick else Size())
    if chosen.only:
        parts = {chosen.only: parts[chosen.only]}
    properties = torch.cuda.get_device_properties(0)
    text = f"Measured on {properties.name}, torch {torch.__version__}."
    print(text)
    for name, part in track(parts.items(), transient=True):
        sheet = part()
        torch.cuda.empty_cache()
        Console(width=160).print(sheet.rich())
        if chosen.write:
            write_between(f"gpu {name}", f"{text}\n\n{sheet.markdown()}", HERE / "gpu.md")


if __name__ == "__main__":
    main()
