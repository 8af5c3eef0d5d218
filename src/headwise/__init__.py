"""headwise: see, check and cut every attention head.

    import headwise as hw
    model = hw.load("smollm2")
    record = hw.look(model, "The animal didn't cross the street because it was too tired")
    record.pattern("13.8")

Names are imported when first used, so that `import headwise` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwise import nn as nn
    from headwise.check.asserting import assert_no_leak as assert_no_leak
    from headwise.check.auditing import audit as audit
    from headwise.check.counting.counting import ledger as ledger
    from headwise.check.counting.ledger import Ledger as Ledger
    from headwise.check.counting.varying import ledgers as ledgers
    from headwise.check.flow.flowing import flow as flow
    from headwise.core import masks as masks
    from headwise.core.attention import attend as attend
    from headwise.cut.ablating.ablating import ablate as ablate
    from headwise.cut.ablating.gates import Gates as Gates
    from headwise.cut.healing.healing import heal as heal
    from headwise.cut.learning.learning import learn_gates as learn_gates
    from headwise.cut.losses import blocks as blocks
    from headwise.cut.losses import loss as loss
    from headwise.cut.pruning.pruning import prune as prune
    from headwise.cut.ranking.files import load_importance as load_importance
    from headwise.cut.ranking.importance import importance as importance
    from headwise.cut.regrouping.regrouping import regroup as regroup
    from headwise.cut.saving.onnx import export_onnx as export_onnx
    from headwise.cut.saving.saving import save as save
    from headwise.cut.timing.timing import timing as timing
    from headwise.hub.generating.generating import generate as generate
    from headwise.hub.load import Model as Model
    from headwise.hub.load import load as load
    from headwise.names import HeadId as HeadId
    from headwise.names import HeadwiseError as HeadwiseError
    from headwise.see import probes as probes
    from headwise.see.circuits.rollout import rollout as rollout
    from headwise.see.circuits.scores import circuits as circuits
    from headwise.see.clusters.grouping import clusters as clusters
    from headwise.see.clusters.measuring import distances as distances
    from headwise.see.looking import look as look
    from headwise.see.neurons.files import load_neurons as load_neurons
    from headwise.see.neurons.firing import fires as fires
    from headwise.see.neurons.gathering import neurons as neurons
    from headwise.see.profile.files import load_profile as load_profile
    from headwise.see.profile.profiler import Profiler as Profiler
    from headwise.see.profile.profiling import profile as profile
    from headwise.see.record import Record as Record
    from headwise.see.residual import contributions as contributions
    from headwise.see.roles.claims import roles as roles
    from headwise.see.roles.examples import examples as examples
    from headwise.see.roles.files import load_roles as load_roles
    from headwise.see.roles.role import Roles as Roles
    from headwise.see.saved import load_record as load_record
    from headwise.see.summary import summarise as summarise
    from headwise.show.notebook.showing import view as view
    from headwise.show.page.saving import save_page as save_page
    from headwise.train.starting import fit as fit

__version__ = "0.1.0"

_HOMES = {
    "Gates": "headwise.cut.ablating.gates",
    "HeadId": "headwise.names",
    "HeadwiseError": "headwise.names",
    "Ledger": "headwise.check.counting.ledger",
    "Model": "headwise.hub.load",
    "Profiler": "headwise.see.profile.profiler",
    "Record": "headwise.see.record",
    "Roles": "headwise.see.roles.role",
    "ablate": "headwise.cut.ablating.ablating",
    "assert_no_leak": "headwise.check.asserting",
    "attend": "headwise.core.attention",
    "audit": "headwise.check.auditing",
    "blocks": "headwise.cut.losses",
    "circuits": "headwise.see.circuits.scores",
    "clusters": "headwise.see.clusters.grouping",
    "contributions": "headwise.see.residual",
    "distances": "headwise.see.clusters.measuring",
    "examples": "headwise.see.roles.examples",
    "export_onnx": "headwise.cut.saving.onnx",
    "fires": "headwise.see.neurons.firing",
    "fit": "headwise.train.starting",
    "flow": "headwise.check.flow.flowing",
    "generate": "headwise.hub.generating.generating",
    "heal": "headwise.cut.healing.healing",
    "importance": "headwise.cut.ranking.importance",
    "learn_gates": "headwise.cut.learning.learning",
    "ledger": "headwise.check.counting.counting",
    "ledgers": "headwise.check.counting.varying",
    "load": "headwise.hub.load",
    "load_importance": "headwise.cut.ranking.files",
    "load_neurons": "headwise.see.neurons.files",
    "load_profile": "headwise.see.profile.files",
    "load_record": "headwise.see.saved",
    "load_roles": "headwise.see.roles.files",
    "look": "headwise.see.looking",
    "loss": "headwise.cut.losses",
    "masks": "headwise.core.masks",
    "neurons": "headwise.see.neurons.gathering",
    "nn": "headwise.nn",
    "probes": "headwise.see.probes",
    "profile": "headwise.see.profile.profiling",
    "prune": "headwise.cut.pruning.pruning",
    "regroup": "headwise.cut.regrouping.regrouping",
    "roles": "headwise.see.roles.claims",
    "rollout": "headwise.see.circuits.rollout",
    "save": "headwise.cut.saving.saving",
    "save_page": "headwise.show.page.saving",
    "summarise": "headwise.see.summary",
    "timing": "headwise.cut.timing.timing",
    "view": "headwise.show.notebook.showing",
}

__all__ = [
    "Gates",
    "HeadId",
    "HeadwiseError",
    "Ledger",
    "Model",
    "Profiler",
    "Record",
    "Roles",
    "ablate",
    "assert_no_leak",
    "attend",
    "audit",
    "blocks",
    "circuits",
    "clusters",
    "contributions",
    "distances",
    "examples",
    "export_onnx",
    "fires",
    "fit",
    "flow",
    "generate",
    "heal",
    "importance",
    "learn_gates",
    "ledger",
    "ledgers",
    "load",
    "load_importance",
    "load_neurons",
    "load_profile",
    "load_record",
    "load_roles",
    "look",
    "loss",
    "masks",
    "neurons",
    "nn",
    "probes",
    "profile",
    "prune",
    "regroup",
    "roles",
    "rollout",
    "save",
    "save_page",
    "summarise",
    "timing",
    "view",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'headwise' has no attribute {name!r}")
    module = importlib.import_module(home)
    itself = home in (f"headwise.{name}", f"headwise.core.{name}", f"headwise.see.{name}")
    value = module if itself else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    own = (name for name in globals() if name.startswith("__"))
    return sorted({*own, *__all__})
