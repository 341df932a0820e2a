"""A receiver as a customer would write it: http.server, and the standardwebhooks package to verify each request.

usage: receive.py SECRET

Prints its port first, then one JSON line a request: what it got and whether the signature holds.
"""

import hashlib
import http.server
import json
import sys
import threading

from standardwebhooks import Webhook, WebhookVerificationError

WEBHOOK = Webhook(sys.argv[1])
PRINTING = threading.Lock()


def say(line):
    with PRINTING:
        print(line, flush=True)


class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            WEBHOOK.verify(body, dict(self.headers))
            refusal = ""
        except WebhookVerificationError as error:
            refusal = str(error) or "refused"
        say(
            json.dumps(
                {
                    "webhook_id": self.headers["webhook-id"],
                    "content_type": self.headers["content-type"],
                    "bytes": len(body),
                    "sha256": hashlib.sha256(body).hexdigest(),
                    "refusal": refusal,
                }
            )
        )
        self.send_response(400 if refusal else 204)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    say(str(server.server_address[1]))
    # Its owner holds the other end of standard input: it ends when that one does.
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


main()
