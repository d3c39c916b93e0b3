"""rsl_rl and its forks (Isaac Lab, legged_gym): a block under ``Learning iteration 5020/15000``.

``Computation: 16327 steps/s (collection: 4.981s, learning 1.039s)``, losses, ``Mean reward: 18.44``, ``Total timesteps:
2064384``, ``Iteration time: 6.02s``, ``Total time: 126.42s`` (or ``Time elapsed: 00:02:06``), ``ETA: 125.4s``. The counter
counts RL iterations (a rollout and its updates) from 0; behind "/" stands the last one. ``Total time`` and ``Total
timesteps`` begin anew at a resume, and ``ETA`` divides the one by all iterations since the very first: far too small after
a resume. Source: leggedrobotics/rsl_rl rsl_rl/runners/on_policy_runner.py (1.0 to 2.x), issue 10.
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.fields import SPACED
from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import RL_ITERATIONS, Meaning

FORMAT = LineFormat(
    name="rsl_rl block",
    framework="rsl_rl",
    gate=("Learning iteration ", "\n"),
    heads=(re.compile(r"Learning iteration (?P<step>\d{1,10})/(?P<run_steps>\d{1,10})\s*(?=\n)"),),
    columns={
        "computation": "env_steps_per_s",
        "collection": "collection_time_s",
        "collection time": "collection_time_s",
        "learning": "learning_time_s",
        "learning time": "learning_time_s",
        "iteration time": "step_time_s",
        "total time": "elapsed_s",
        "time elapsed": "elapsed_s",
        "total timesteps": "env_steps",
        "total steps": "env_steps",
        "steps per second": "env_steps_per_s",
        "eta": "eta_s",
        "mean total loss": "loss",
    },
    form=SPACED,
    meaning=Meaning(
        RL_ITERATIONS,
        0,
        "rank 0 only",
        "s of the one iteration printed; the printed ETA is wrong after a resume",
        "leggedrobotics/rsl_rl rsl_rl/runners/on_policy_runner.py",
    ),
)
