"""Models of ours over several processes: `by_heads` splits one, `full_state` puts its weights together."""

from __future__ import annotations

from headwise.nn.parallel.own import plain_class
from headwise.nn.parallel.splitting import by_heads
from headwise.nn.parallel.state import full_state
from headwise.nn.parallel.styles import ByHeads, ByNeurons, ByVocabulary, Whole

__all__ = ["ByHeads", "ByNeurons", "ByVocabulary", "Whole", "by_heads", "full_state", "plain_class"]
