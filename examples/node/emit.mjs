import grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

const definition = loadSync("posthaste/v1/event.proto", { includeDirs: ["proto"], keepCase: true });
const { EventService } = grpc.loadPackageDefinition(definition).posthaste.v1;
const events = new EventService("127.0.0.1:7420", grpc.credentials.createInsecure());

const payload = Buffer.from(JSON.stringify({ order: "or_4" }));
const request = { account_id: "acme", type: "order.placed", payload, idempotency_key: "or_4" };
events.emit(request, { deadline: Date.now() + 5000 }, (error, answer) => {
  if (error) throw error;
  console.log(answer.event_id, "goes to", answer.delivery_count, "endpoints");
  events.close();
});
