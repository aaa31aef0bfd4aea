"""Print what Helm makes of a chart with the given values, for tests: ``render_chart.py FOLDER VALUES``."""

import json
import sys
from importlib import import_module

helm = import_module("helm_python")  # where `make test` installs it, no type checker looks
try:
    rendered = helm.Chart.load(sys.argv[1]).render(json.loads(sys.argv[2]), name="toolwire-gateway")
except helm.HelmRenderError as error:
    sys.exit(str(error))
print("\n---\n".join(rendered.values()))
