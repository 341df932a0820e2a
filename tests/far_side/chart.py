"""Lints, renders and judges the chart with Helm's own library and Kubernetes' own schemas.

usage: chart.py CHART

For each value set in CHART/ci prints one JSON line with what was rendered and the containers in it; at the end one line
about the typos that values.schema.json refused. Problems go to stderr, and any of them makes it exit with 1.
"""

import copy
import functools
import json
import sys
from pathlib import Path

import kubernetes_validate
import yaml
from helm_python import Chart, HelmError, lint
from kubernetes_validate import utils

KUBERNETES = "1.37"
INFO = 1
# Kinds that the Prometheus operator defines; Kubernetes has no schema for them.
FOREIGN_KINDS = {"ServiceMonitor"}
POD_OWNERS = {"Deployment", "Job"}

# It reads the same megabytes of schemas for each object.
utils.schema_contents = functools.cache(utils.schema_contents)

problems = []


def demand(holds, what):
    if not holds:
        problems.append(what)


def objects_of(chart, values):
    """Every rendered object; text that is no manifest, such as NOTES.txt, is left out."""
    rendered = chart.render(values, name="demo", namespace="hooks")
    manifests = [text for path, text in rendered.items() if path.endswith(".yaml")]
    return [document for text in manifests for document in yaml.safe_load_all(text) if document]


def validated(objects, label):
    """How many objects Kubernetes' strict schemas accept: those that name no unknown field either."""
    count = 0
    for each in objects:
        if each["kind"] in FOREIGN_KINDS:
            continue
        try:
            kubernetes_validate.validate(each, KUBERNETES, strict=True)
            count += 1
        except kubernetes_validate.SchemaNotFoundError as error:
            problems.append(f"{label}: {error.message}")
        except kubernetes_validate.ValidationError as error:
            path = ".".join(str(part) for part in error.path)
            problems.append(f"{label}: {each['kind']} {each['metadata']['name']}: {path}: {error.message}")
    return count


def matches(selector, labels):
    return selector.items() <= labels.items()


def judge_container(container, label):
    security = container["securityContext"]
    demand(security["readOnlyRootFilesystem"] is True, f"{label}: its root file system can be written")
    demand(security["allowPrivilegeEscalation"] is False, f"{label}: it may gain privileges")
    demand(security["capabilities"] == {"drop": ["ALL"]}, f"{label}: it keeps capabilities")
    demand(container["resources"].get("requests"), f"{label}: it requests no resources")
    for variable in container["env"]:
        secret = "URL" in variable["name"] or "KEY" in variable["name"]
        by_reference = "secretKeyRef" in variable.get("valueFrom", {})
        demand(by_reference == secret, f"{label}: {variable['name']} is {'a literal' if secret else 'a secret'}")
    ports = {port["name"] for port in container.get("ports", [])}
    demand(ports or "--migrate-only" in container["args"], f"{label}: it opens no port to be probed at")
    for probe, path in [("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")]:
        if ports:
            get = container[probe]["httpGet"]
            demand(get["path"] == path and get["port"] in ports, f"{label}: its {probe} asks {get}")


def judge_pod(owner, label):
    """One pod template; returns its containers for the program's own judgement."""
    pod = owner["spec"]["template"]["spec"]
    labels = owner["spec"]["template"]["metadata"]["labels"]
    component = labels["app.kubernetes.io/component"]
    demand(pod["automountServiceAccountToken"] is False, f"{label}: it gets a token of the cluster")
    security = pod["securityContext"]
    demand(security["runAsNonRoot"] is True and security["runAsUser"] > 0, f"{label}: it may run as root")
    demand(security["seccompProfile"] == {"type": "RuntimeDefault"}, f"{label}: no seccomp profile")
    if owner["kind"] == "Deployment":
        demand(matches(owner["spec"]["selector"]["matchLabels"], labels), f"{label}: it doesn't select its pods")
    if component == "agent":
        text = json.dumps(pod)
        words = [word for word in ("secretKeyRef", "secretName", "DATABASE") if word in text]
        demand(not words, f"{label}: the agent has {words}")
    grace = pod.get("terminationGracePeriodSeconds", 30)
    found = []
    for container in pod["containers"]:
        judge_container(container, f"{label} {container['name']}")
        mounts = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
        parts = {key: container[key] for key in ("args", "env", "image")}
        found.append({"component": component, "grace_s": grace, "mounts": mounts, **parts})
    return found


def judge_references(objects, label):
    """What names other objects names existing ones."""
    pods = {each["metadata"]["name"]: each for each in objects if each["kind"] == "Deployment"}
    templates = [each["spec"]["template"] for each in pods.values()]
    services = [each for each in objects if each["kind"] == "Service"]
    for each in objects:
        where = f"{label}: {each['kind']} {each['metadata']['name']}"
        spec = each.get("spec", {})
        if each["kind"] == "Service":
            picked = [pod for pod in templates if matches(spec["selector"], pod["metadata"]["labels"])]
            demand(len(picked) == 1, f"{where} picks {len(picked)} kinds of pods")
            ports = {port["name"] for pod in picked for box in pod["spec"]["containers"] for port in box.get("ports", [])}
            demand({port["targetPort"] for port in spec["ports"]} <= ports, f"{where} leads to a port nobody opens")
        elif each["kind"] == "PodDisruptionBudget":
            picked = [pod for pod in templates if matches(spec["selector"]["matchLabels"], pod["metadata"]["labels"])]
            demand(len(picked) == 1, f"{where} picks {len(picked)} kinds of pods")
        elif each["kind"] == "HorizontalPodAutoscaler":
            scaled = pods.get(spec["scaleTargetRef"]["name"])
            demand(scaled and "replicas" not in scaled["spec"], f"{where} scales nothing, or against a fixed number")
        elif each["kind"] == "ServiceMonitor":
            wanted = spec["selector"]["matchLabels"]
            picked = [service for service in services if matches(wanted, service["metadata"]["labels"])]
            demand(len(picked) == 1, f"{where} picks {len(picked)} services")
            ports = {port["name"] for service in picked for port in service["spec"]["ports"]}
            demand({each["port"] for each in spec["endpoints"]} <= ports, f"{where} asks a port nobody opens")


def judge_routes(objects, values, label):
    """No policy gives agents a route to the database."""
    for each in objects:
        if each["kind"] != "NetworkPolicy":
            continue
        agent = each["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "agent"
        ports = {port["port"] for rule in each["spec"]["egress"] for port in rule.get("ports", [])}
        demand((5432 in ports) != agent, f"{label}: {each['metadata']['name']} has the database's port: {not agent}")
        if agent:
            blocks = [to["ipBlock"] for rule in each["spec"]["egress"] for to in rule.get("to", []) if "ipBlock" in to]
            world = next(block for block in blocks if block["cidr"] == "0.0.0.0/0")
            demand("10.0.0.0/8" in world["except"], f"{label}: agents reach private networks")
            allowed = {block["cidr"] for block in blocks} - {"0.0.0.0/0", "::/0"}
            wanted = set(values.get("addressPolicy", {}).get("allowCidrs", []))
            demand(allowed == wanted, f"{label}: agents reach {allowed}, not {wanted}")


def judge(chart, path, values_path):
    values = yaml.safe_load(values_path.read_text())
    label = values_path.stem
    report = lint(path, values, strict=True, kube_version=f"v{KUBERNETES}.0")
    findings = [message["error"] for message in report["messages"] if message["severity"] > INFO]
    problems.extend(f"{label}: lint: {text}" for text in findings + report["errors"])
    objects = objects_of(chart, values)
    count = validated(objects, label)
    judge_references(objects, label)
    judge_routes(objects, values, label)
    owners = [each for each in objects if each["kind"] in POD_OWNERS]
    containers = [box for owner in owners for box in judge_pod(owner, f"{label} {owner['kind']}")]
    kinds = sorted({each["kind"] for each in objects})
    line = {"set": label, "objects": len(objects), "validated": count, "kinds": kinds, "containers": containers}
    print(json.dumps(line), flush=True)


def places(schema, root, values, at=()):
    """Every place in `values` whose keys the schema lists."""
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    if "properties" in schema and isinstance(values, dict):
        yield at
        for key, inner in schema["properties"].items():
            yield from places(inner, root, values.get(key), (*at, key))
            if key not in values and at + (key,) != ("global",) and len(at) < 2:
                problems.append(f"values.yaml lacks {'.'.join((*at, key))}, which the schema takes")
    elif schema.get("type") == "array" and values:
        yield from places(schema["items"], root, values[0], (*at, 0))


def refused(chart, values):
    """The text with which the schema refuses these values; empty when it takes them."""
    try:
        chart.render(values, name="demo", namespace="hooks")
    except HelmError as error:
        return str(error)
    return ""


def judge_typos(chart, path):
    full = chart.merge_values(yaml.safe_load((path / "ci" / "production.yaml").read_text()))
    demand(refused(chart, full) == "", f"the whole of the values is refused: {refused(chart, full)}")
    spots = list(places(chart.schema, chart.schema, full))
    for place in spots:
        wrong = copy.deepcopy(full)
        spot = wrong
        for key in place:
            spot = spot[key]
        spot["replcas"] = 1
        demand("replcas" in refused(chart, wrong), f"a typo in {'.'.join(map(str, place)) or 'the root'} passes")
    wrong_values = [
        ({"agents": {"replicas": "2"}}, "replicas"),
        ({"controlPlane": {"leaseTtl": "9 s"}}, "leaseTtl"),
        ({"controlPlane": {"poolSize": 3}}, "poolSize"),
        ({"agents": {"controlPlaneUrls": ["posthaste:7420"]}}, "controlPlaneUrls"),
        ({"database": {"url": "postgres://user:password@host/database"}}, "url"),
        ({"database": {"existingSecret": ""}}, "database.existingSecret"),
        ({"endpointSecrets": {"existingSecret": ""}}, "endpointSecrets.existingSecret"),
        ({"controlPlane": {"enabled": False}}, "agents.controlPlaneUrls"),
    ]
    minimal = yaml.safe_load((path / "ci" / "minimal.yaml").read_text())
    for values, word in wrong_values:
        told = refused(chart, {**minimal, **values})
        demand(word in told, f"{values} is refused with `{told}`, which doesn't name {word}")
    print(json.dumps({"typos_refused": len(spots), "values_refused": len(wrong_values)}), flush=True)


def main():
    path = Path(sys.argv[1])
    with Chart.load(path) as chart:
        for values_path in sorted((path / "ci").glob("*.yaml")):
            judge(chart, path, values_path)
        judge_typos(chart, path)
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(1 if problems else 0)


main()
