"""C7: heads come to look at different things by themselves; roles differ by model, layer and stage of training.

    role: a rule that names a key for each query (the token before, the token after the last occurrence of this
    one, ...), and a head that looks at those keys more than the best rule that knows nothing of the text

Nobody tells a head what to look at. A small model is trained, and at some of its steps every head is profiled on
held-out text and on random tokens that repeat. The score of a role is that of the best head, as the share of the
way from the baseline to 1; the role is there once that is above a tenth. Beside it: trained models.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from headwise.hub.load import Model, load
from headwise.lab.bench import Bench
from headwise.lab.claim import Claim, Line, Panel, Quantity, Verdict
from headwise.lab.estimates import estimate
from headwise.lab.judging import above, below, verdict
from headwise.lab.lines import over
from headwise.lab.results import Case, Results
from headwise.lab.words import LOSS, Words
from headwise.see.probes import ON_REPEATED, repeated_tokens
from headwise.see.profile.profiling import profile
from headwise.see.roles.claims import roles
from headwise.see.roles.role import Roles

STEPS = (0, 25, 50, 100, 200, 400, 600)
REPEATS = 0.5
TEXTS = 32
BOUND = 0.1
"""Of the way from the baseline to 1."""
ROLES = {
    "previous": Words("previous token", "前一个 token"),
    "self": Words("itself", "自己"),
    "first": Words("first token", "第一个 token"),
    "delimiter": Words("punctuation", "标点"),
    "same_token_random": Words("same token", "相同的 token"),
    "induction_random": Words("induction", "归纳"),
}

QUANTITIES = (
    *(
        Quantity(name, Words(f"{said.en}, above baseline", f"{said.zh}(高于基线)"))
        for name, said in ROLES.items()
    ),
    *(
        Quantity(f"{name} head", Words(f"best head, {said.en}", f"最佳头:{said.zh}"), 0)
        for name, said in ROLES.items()
    ),
    Quantity("apart", Words("spread of evenness over heads", "各头均匀度的标准差")),
    Quantity("loss", LOSS),
)


def cases(quick: bool) -> list[Case]:
    """Steps of the training, and trained models."""
    small: list[Case] = [{"model": "small", "step": step // (5 if quick else 1)} for step in STEPS]
    return small + [{"model": name} for name in (("mini",) if quick else ("mini", "smollm2"))]


def measure(bench: Bench, case: Case, seed: int) -> Mapping[str, float]:
    """What the heads of a model are, at a step of its training or at its end."""
    if case["model"] == "small":
        return course(bench, seed)[int(case["step"])]
    return looked_at(bench, bench.model(str(case["model"])), seed)


@lru_cache(maxsize=1)
def course(bench: Bench, seed: int) -> Mapping[int, Mapping[str, float]]:
    """A training, once for all of its steps."""
    module = bench.decoder(seed)
    steps = {int(case["step"]) for case in cases(bench.quick) if "step" in case}
    found: dict[int, Mapping[str, float]] = {}

    def after(step: int) -> None:
        if step in steps:
            module.eval()
            model = load(module, tokenizer=bench.tokenizer, quiet=True)
            found[step] = {**looked_at(bench, model, seed), "loss": bench.loss(module)}
            module.train()

    bench.learn(module, seed, steps=max(steps), repeats=REPEATS, after=after)
    return found


def looked_at(bench: Bench, model: Model, seed: int) -> dict[str, float]:
    """Of each role how far the best head is above its baseline, and which head that is; how unlike heads are."""
    texts = list(bench.text.held_out[:TEXTS])
    asked = [name for name in ROLES if not name.endswith("_random")]
    of_text = profile(model, texts, probes=asked, context=64)
    random = repeated_tokens((8, 24), seed, model=model, rows=TEXTS)
    of_random = profile(model, random, probes=ON_REPEATED)
    found = {"apart": float(of_text["evenness"].std())}
    return found | best_heads(roles([of_text, of_random]), of_text.sizes["head"])


def best_heads(known: Roles, width: int) -> dict[str, float]:
    """The best head of each role, as a number counted through the layers."""
    found: dict[str, float] = {}
    for name in ROLES:
        for role in known.best(name, 1):
            found[name] = role.above
            found[f"{name} head"] = float(role.head.layer * width + role.head.head)
    return found


def judge(results: Results) -> Verdict:
    """Core: roles appear, and heads become unlike. Further: at different steps, and in different heads by seed."""
    steps = sorted(int(step) for step in results.settings("step", model="small"))
    begin, end = steps[0], steps[-1]
    at_first, at_last = (estimate(there(results, step)) for step in (begin, end))
    apart = results.difference(
        "apart", {"model": "small", "step": end}, {"model": "small", "step": begin}
    )
    came = {name: appears(results, name) for name in ROLES}
    seeds = sorted({seed for by in came.values() for seed in by})
    between = estimate([_span([by[s] for by in came.values() if s in by]) for s in seeds])
    of = len(ROLES)
    core = (
        above(
            "roles at the end",
            f"roles of {of} there after {end} steps",
            f"{end} 步后 {of} 种角色中已有的",
            at_last,
            1.0,
            1,
        ),
        below(
            "roles at the start",
            "roles there in fresh weights",
            "初始权重里已有的角色",
            at_first,
            1.0,
            1,
        ),
        above(
            "apart",
            "spread of evenness over heads, end less start",
            "各头均匀度的标准差,结束减去开始",
            apart,
        ),
    )
    further = (
        above(
            "between",
            "steps between the first role and the last",
            "第一种与最后一种角色相隔的步数",
            between,
            digits=0,
        ),
        below(
            "same head",
            "share of other seeds with the same previous-token head",
            "其他种子里由同一个头看前一个 token 的比例",
            estimate(same_head(results, "previous", end)),
            0.5,
            2,
        ),
    )
    return verdict(
        core,
        further,
        holds=Words(
            "Heads take roles by themselves, at different steps, and another head takes them with another seed",
            "头会自发承担角色,时间各不相同,换一个种子就由别的头承担",
        ),
        up_to=Words(
            "Heads take roles by themselves, but stage or seed do not set them apart as claimed",
            "头会自发承担角色,但训练阶段或种子并未如论断那样使其不同",
        ),
        fails=Words("Heads do not take roles as claimed", "头并没有如论断那样承担角色"),
    )


def there(results: Results, step: int) -> list[float]:
    """How many roles are there at a step, by seed."""
    found = [results.values(name, model="small", step=step) for name in ROLES]
    seeds = results.values("apart", model="small", step=step)
    return [float(sum(by.get(seed, 0.0) > BOUND for by in found)) for seed in seeds]


def appears(results: Results, role: str) -> dict[int, float]:
    """The first step at which a role is there, by seed, of the seeds in which it comes."""
    found: dict[int, float] = {}
    for step in sorted(int(step) for step in results.settings("step", model="small")):
        for seed, score in results.values(role, model="small", step=step).items():
            if score > BOUND:
                found.setdefault(seed, float(step))
    return found


def _span(steps: list[float]) -> float:
    return max(steps) - min(steps)


def same_head(results: Results, role: str, step: int) -> list[float]:
    """For each seed, the share of the others whose best head is the same one."""
    best = list(results.values(f"{role} head", model="small", step=step).values())
    return [(best.count(head) - 1) / (len(best) - 1) for head in best if len(best) > 1]


def panels(results: Results) -> list[Panel]:
    """Scores along the training; scores of trained models; how unlike heads are."""
    bound = [(Words("the role is there", "角色已出现"), BOUND)]
    best = Words("best head, above its baseline", "最佳头,高于基线")
    names = [str(name) for name in results.settings("model") if name != "small"]
    steps = Words("step of the training", "训练步数")

    def trained(name: str) -> Line:
        found = [results.mean(role, model=name) for role in ROLES]
        return Line.of(Words(name, name), range(len(ROLES)), found)

    along = [over(results, said, name, "step", model="small") for name, said in ROLES.items()]
    unlike = over(results, Words("small", "小模型"), "apart", "step", model="small")
    role = Words("role", "角色")
    return [
        Panel(along, steps, best, levels=bound),
        Panel([trained(n) for n in names], role, best, ticks=list(ROLES.values()), levels=bound),
        Panel([unlike], steps, Words("spread of evenness over heads", "各头均匀度的标准差")),
    ]


def facts(results: Results) -> dict[str, str]:
    """Figures for the lesson."""
    steps = sorted(int(step) for step in results.settings("step", model="small"))
    end = steps[-1]
    said = {"end": str(end), "roles": str(len(ROLES)), "seeds": str(len(there(results, end)))}
    for name in ROLES:
        came = list(appears(results, name).values())
        said[f"{name}_step"] = estimate(came).told(0)
        said[f"{name}_came"] = str(len(came))
        said[f"{name}_end"] = results.mean(name, model="small", step=end).told(2)
        heads = results.values(f"{name} head", model="small", step=end).values()
        said[f"{name}_heads"] = str(len(set(heads)))
        for model in ("mini", "smollm2"):
            said[f"{name}_{model}"] = results.mean(name, model=model).told(2)
    for name, step in (("start", steps[0]), ("end", end)):
        said[f"apart_{name}"] = results.mean("apart", model="small", step=step).told(3)
    return said


CLAIM = Claim(
    name="roles",
    row="C7",
    title=Words("Roles along a training", "训练过程中的角色"),
    says=Words(
        "Heads come to look at different things by themselves: neighbours, syntax, coreference, everything; roles "
        "differ by model, layer and stage of training.",
        "不同的头会自发地关注不同的东西:邻近、句法、指代、全局;不同模型、不同层、不同训练阶段分工都可能不同。",
    ),
    formula=r"\mathrm{above}=\frac{\mathrm{score}-\mathrm{baseline}}{1-\mathrm{baseline}}",
    asks=Words(
        "How much the best head of each role attends by it, at steps of a training from fresh weights and in "
        "trained models.",
        "从初始权重开始的训练的各个步上,以及在训练好的模型里,每种角色的最佳头在多大程度上按该角色注意。",
    ),
    cases=cases,
    seeds=(2, 5),
    measure=measure,
    quantities=QUANTITIES,
    judge=judge,
    panels=panels,
    sources=(
        "Clark et al. 2019, What Does BERT Look At?",
        "Voita et al. 2019, Analyzing Multi-Head Self-Attention",
        "Olsson et al. 2022, In-context Learning and Induction Heads",
    ),
    facts=facts,
)
