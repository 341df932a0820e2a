// Verifies signed requests with the unmodified packages `standardwebhooks` and `svix`.
//
// usage: node verify.mjs NODE_MODULES SECRET < requests
//
// Lines in and out as in verify.py.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [nodeModules, secret] = process.argv.slice(2);
const require = createRequire(`${nodeModules}/`);
const standard = new (require("standardwebhooks").Webhook)(secret);
const other = new (require("svix").Webhook)(secret);

function refusal(verify) {
  try {
    verify();
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
  return "";
}

for await (const line of createInterface({ input: process.stdin })) {
  const { headers, body_base64 } = JSON.parse(line);
  const body = Buffer.from(body_base64, "base64");
  const answer = {
    standardwebhooks: refusal(() => standard.verify(body, headers, { jsonParse: false })),
    svix: refusal(() => other.verify(body, headers, { jsonParse: false })),
    parsed: refusal(() => standard.verify(body, headers)),
  };
  console.log(JSON.stringify(answer));
}
