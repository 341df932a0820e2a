import grpc

messages, services = grpc.protos_and_services("posthaste/v1/event.proto")  # looked for on PYTHONPATH

with grpc.insecure_channel("127.0.0.1:7420") as channel:
    request = messages.EmitRequest(
        account_id="acme", type="order.placed", payload=b'{"order": "or_3"}', idempotency_key="or_3"
    )
    # Answered after the commit. After a timeout, the same key makes it safe to call again.
    answer = services.EventServiceStub(channel).Emit(request, timeout=5)
    print(answer.event_id, "goes to", answer.delivery_count, "endpoints")
