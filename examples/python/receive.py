import http.server, os
from standardwebhooks import Webhook

class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        event = Webhook(os.environ["WEBHOOK_SECRET"]).verify(body, dict(self.headers))  # raises if it is forged
        print(self.headers["webhook-id"], event, flush=True)
        self.send_response_only(204), self.end_headers()
http.server.HTTPServer(("127.0.0.1", 9000), Receiver).serve_forever()
