"""kustomize, Helm's chart and the program agree: the same objects, definitions and rights.

The chart is rendered here by its three forms of expression, because Helm may not be installed. Where the package
helm-python-sdk is, which has Helm's own code, both ways of rendering are compared.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
CHART = DEPLOY / "helm" / "forebay"
PROGRAM = os.environ.get("FOREBAY_OPERATOR")
Json = dict[str, Any]


def rendered(namespace: str, **changes: Any) -> list[Json]:
    """Renders the chart with its values, some of them changed."""
    values = {**yaml.safe_load((CHART / "values.yaml").read_text()), **changes}
    context: Json = {"Values": values, "Release": {"Namespace": namespace}}

    def expression(found: re.Match[str]) -> str:
        path, *filters = (part.strip() for part in found[1].split("|"))
        value: Any = context
        for name in path.removeprefix(".").split("."):
            value = value[name]
        assert filters in ([], ["quote"], ["toJson"]), found[0]
        return json.dumps(value) if filters else str(value)

    files = sorted((CHART / "templates").glob("*.yaml"))
    texts = [re.sub(r"\{\{ (.*?) \}\}", expression, file.read_text()) for file in files]
    return [it for text in texts for it in yaml.safe_load_all(text)]


def by_name(objects: list[Json]) -> dict[tuple[str, str], Json]:
    return {(it["kind"], it["metadata"]["name"]): it for it in objects}


def kustomized() -> list[Json]:
    files = [DEPLOY / "kubernetes" / name for name in ("operator.yaml", "rbac.yaml")]
    return [it for file in files for it in yaml.safe_load_all(file.read_text())]


def bare(found: Json) -> Json:
    """Removes empty fields, and joins the command into one list: the two forms differ in these."""
    found = json.loads(json.dumps(found))
    if found["kind"] == "Deployment":
        pod = found["spec"]["template"]["spec"]
        for field in ("imagePullSecrets", "nodeSelector", "tolerations"):
            if not pod.get(field):
                pod.pop(field, None)
        (container,) = pod["containers"]
        container["command"] = [*container["command"], *container.pop("args", [])]
        container.pop("imagePullPolicy", None)
    return found


def test_the_chart_has_the_objects_of_the_folder() -> None:
    chart, folder = by_name(rendered("forebay")), by_name(kustomized())
    # Helm makes the namespace itself.
    del folder["Namespace", "forebay"]
    # Both kinds of Role have the same name, and so have both kinds of binding.
    assert chart.keys() == folder.keys()
    for name, expected in folder.items():
        assert bare(chart[name]) == bare(expected), name
    assert (CHART / "crds" / "crd.yaml").read_text() == (DEPLOY / "kubernetes" / "crd.yaml").read_text()


def test_values_reach_the_objects_and_the_namespace_is_that_of_the_release() -> None:
    changed = by_name(rendered("tools", image="other:2", replicas=1, args=["--lease", "30"]))
    deployment = changed["Deployment", "forebay-operator"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert (deployment["spec"]["replicas"], container["image"], container["args"]) == (1, "other:2", ["--lease", "30"])
    assert {"name": "FOREBAY_OPERATOR_IMAGE", "value": "other:2"} in container["env"]
    for found in changed.values():
        assert found["metadata"].get("namespace", "tools") == "tools"
        assert all(it.get("namespace", "tools") == "tools" for it in found.get("subjects", []))


def test_helm_renders_what_is_rendered_here() -> None:
    helm = pytest.importorskip("helm_python", reason="helm-python-sdk is not installed", exc_type=ImportError)
    values = {"image": "other:2", "replicas": 1, "tolerations": [{"key": "spot", "operator": "Exists"}]}
    for changes in ({}, values):
        with helm.Chart.load(str(CHART)) as chart:
            texts = chart.render(changes, name="forebay", namespace="tools")
        files = [text for name, text in sorted(texts.items()) if name.endswith(".yaml")]
        objects = [it for text in files for it in yaml.safe_load_all(text)]
        assert by_name(objects) == by_name(rendered("tools", **changes))


@pytest.mark.skipif(PROGRAM is None, reason="`make kubernetes` builds forebay-operator")
def test_the_definitions_are_those_of_the_program() -> None:
    made = subprocess.run([str(PROGRAM), "crd"], capture_output=True, text=True, check=True).stdout
    assert made == (DEPLOY / "kubernetes" / "crd.yaml").read_text()
    # The image runs the command of both forms.
    (deployment,) = (it for it in kustomized() if it["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    command = [str(PROGRAM), *container["args"], "--help"]
    assert subprocess.run(command, capture_output=True, timeout=90).returncode == 0
