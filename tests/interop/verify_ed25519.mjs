// Verifies `v1a` signatures with Node's own crypto, as the specification describes them.
//
// usage: node verify_ed25519.mjs PUBLIC_KEY < requests
//
// Lines in and out as in verify_ed25519.py.
import { createPublicKey, verify } from "node:crypto";
import { createInterface } from "node:readline";

const [text] = process.argv.slice(2);
if (!text.startsWith("whpk_")) throw new Error("a public key begins with whpk_");
const x = Buffer.from(text.slice("whpk_".length), "base64").toString("base64url");
const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });

for await (const line of createInterface({ input: process.stdin })) {
  const { headers, body_base64 } = JSON.parse(line);
  const head = Buffer.from(`${headers["webhook-id"]}.${headers["webhook-timestamp"]}.`);
  const signed = Buffer.concat([head, Buffer.from(body_base64, "base64")]);
  const signatures = headers["webhook-signature"]
    .split(" ")
    .filter((entry) => entry.startsWith("v1a,"))
    .map((entry) => Buffer.from(entry.slice("v1a,".length), "base64"));
  const verified = signatures.filter((signature) => verify(null, signed, key, signature)).length;
  console.log(JSON.stringify({ entries: signatures.length, verified }));
}
