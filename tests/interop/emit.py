"""A producer in Python: makes its client from our .proto files and emits every example payload.

usage: emit.py PROTO_FOLDER EXAMPLES_JSON SERVER RECEIVER_URL SECRET

EXAMPLES_JSON is the index of @octokit/webhooks-examples: a list of {"name", "examples": [payload, …]}.
Prints one JSON line an event: its id and what was emitted.
"""

import hashlib
import json
import pathlib
import sys
import tempfile

import grpc
import grpc_tools
from grpc_tools import protoc

ACCOUNT = "octocat"


def generate(proto_folder, out):
    """Compiles our services; the types of others come with their own packages."""
    files = sorted(str(path) for path in pathlib.Path(proto_folder, "posthaste", "v1").glob("*.proto"))
    well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    status = protoc.main(
        ["protoc", f"-I{proto_folder}", f"-I{well_known}", f"--python_out={out}", f"--grpc_python_out={out}", *files]
    )
    if status != 0:
        sys.exit(f"protoc failed with {status}")


def payloads(examples_json):
    """Each event's type with its payload's bytes, every other one written with spaces and without escapes."""
    for kind in json.loads(pathlib.Path(examples_json).read_text(encoding="utf-8")):
        for number, example in enumerate(kind["examples"]):
            if number % 2:
                text = json.dumps(example, ensure_ascii=False, indent=2) + "\n"
            else:
                text = json.dumps(example, separators=(",", ":"))
            yield kind["name"], text.encode()


def main():
    proto_folder, examples_json, server, receiver_url, secret = sys.argv[1:]
    with tempfile.TemporaryDirectory() as out:
        generate(proto_folder, out)
        sys.path.insert(0, out)
        from posthaste.v1 import account_pb2, account_pb2_grpc
        from posthaste.v1 import endpoint_pb2, endpoint_pb2_grpc
        from posthaste.v1 import event_pb2, event_pb2_grpc

    with grpc.insecure_channel(server) as channel:
        accounts = account_pb2_grpc.AccountServiceStub(channel)
        accounts.CreateAccount(
            account_pb2.CreateAccountRequest(account=account_pb2.Account(account_id=ACCOUNT)), timeout=20
        )
        endpoint = endpoint_pb2.Endpoint(account_id=ACCOUNT, endpoint_id="all", url=receiver_url, max_in_flight=32)
        endpoints = endpoint_pb2_grpc.EndpointServiceStub(channel)
        endpoints.CreateEndpoint(
            endpoint_pb2.CreateEndpointRequest(endpoint=endpoint, secret=secret), timeout=20
        )
        events = event_pb2_grpc.EventServiceStub(channel)
        for event_type, payload in payloads(examples_json):
            request = event_pb2.EmitRequest(account_id=ACCOUNT, type=event_type, payload=payload)
            answer = events.Emit(request, timeout=20)
            line = {
                "webhook_id": answer.event_id,
                "deliveries": answer.delivery_count,
                "bytes": len(payload),
                "sha256": hashlib.sha256(payload).hexdigest(),
            }
            print(json.dumps(line), flush=True)


main()
