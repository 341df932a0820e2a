"""Verifies `v1a` signatures with the unmodified package `PyNaCl` (libsodium), as the specification describes them.

usage: verify_ed25519.py PUBLIC_KEY < requests

Lines in as in verify.py. Each line of the output answers one: {"entries": …, "verified": …}, how many `v1a` entries the
signature header has, and how many of them the public key (`whpk_…`) verifies.
"""

import base64
import json
import sys

import nacl.exceptions
import nacl.signing

PREFIX = "whpk_"


def verifies(key, signed, signature):
    try:
        key.verify(signed, base64.b64decode(signature, validate=True))
    except (nacl.exceptions.BadSignatureError, ValueError):
        return False
    return True


def main():
    text = sys.argv[1]
    assert text.startswith(PREFIX), "a public key begins with whpk_"
    key = nacl.signing.VerifyKey(base64.b64decode(text[len(PREFIX) :], validate=True))
    for line in sys.stdin:
        request = json.loads(line)
        headers, body = request["headers"], base64.b64decode(request["body_base64"])
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        entries = [entry.partition(",") for entry in headers["webhook-signature"].split(" ")]
        signatures = [signature for scheme, _, signature in entries if scheme == "v1a"]
        verified = sum(verifies(key, signed, signature) for signature in signatures)
        print(json.dumps({"entries": len(signatures), "verified": verified}), flush=True)


main()
