"""Models on disk, cut ones too: plain transformers checkpoints where those can say it, else with what was cut."""
