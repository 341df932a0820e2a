import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

createServer(async (request, response) => {
  const body = Buffer.concat(await request.toArray());
  const event = new Webhook(process.env.WEBHOOK_SECRET).verify(body, request.headers); // throws if it is forged
  console.log(request.headers["webhook-id"], event);
  response.writeHead(204).end();
}).listen(9000, "127.0.0.1");
