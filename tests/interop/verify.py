"""Verifies signed requests with the unmodified packages `standardwebhooks` and `svix`.

usage: verify.py SECRET < requests

Each line of the input is one request: {"headers": {…}, "body_base64": …}. Each line of the output answers one, in their
order: what every library's own verify says, by library; empty when it verified. `parsed` is what the first one says when
it also has to parse the body as JSON.
"""

import base64
import json
import sys

import standardwebhooks
import svix.webhooks

SECRET = sys.argv[1]


def refusal(verify):
    try:
        verify()
    except Exception as error:  # noqa: BLE001: whatever a library raises is its answer
        return f"{type(error).__name__}: {error}"
    return ""


def main():
    standard, other = standardwebhooks.Webhook(SECRET), svix.webhooks.Webhook(SECRET)
    for line in sys.stdin:
        request = json.loads(line)
        body, headers = base64.b64decode(request["body_base64"]), request["headers"]
        answer = {
            "standardwebhooks": refusal(lambda: standard.verify(body, headers, json_parse=False)),
            "svix": refusal(lambda: other.verify(body, headers)),
            "parsed": refusal(lambda: standard.verify(body, headers)),
        }
        print(json.dumps(answer), flush=True)


main()
