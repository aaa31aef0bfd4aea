"""What every test runs under: properties draw the same cases on every run; ``make hunt`` draws new ones, and more."""

import os
import signal
import tempfile

from hypothesis import HealthCheck, settings

SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile("same", deadline=None, print_blob=True, derandomize=True, suppress_health_check=SLOW)
settings.register_profile("hunt", deadline=None, print_blob=True, max_examples=1_000, suppress_health_check=SLOW)
settings.load_profile(os.environ.get("TOOLWIRE_CASES", "same"))

# Decisions that a test makes are not kept among those of whoever runs it.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="toolwire-state-")

# Programs that tests start take Ctrl-C as they would on a terminal, also where the tests themselves run unattended.
signal.signal(signal.SIGINT, signal.default_int_handler)
