"""The zoo by which the audit is judged: every planted fault, and every sound model."""

from __future__ import annotations

import faults_batches
import faults_cached
import faults_masks
import faults_mixing
import faults_routing
import sound_attention
import sound_families
import sound_others
import sound_recurrent
from zoo_parts import Fault, Sound

FAULTS: list[Fault] = [
    *faults_masks.FAULTS,
    *faults_mixing.FAULTS,
    *faults_routing.FAULTS,
    *faults_batches.FAULTS,
    *faults_cached.FAULTS,
]

SOUND: list[Sound] = [
    *sound_attention.SOUND,
    *sound_recurrent.SOUND,
    *sound_others.SOUND,
    *sound_families.SOUND,
]
