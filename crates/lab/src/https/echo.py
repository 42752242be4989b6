# Says its name, sends back all that it gets, and ends behind the line "quit".
import socketserver
import sys


class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(sys.argv[2].encode() + b"\n")
        end = b""
        while end != b"quit\n":
            data = self.request.recv(65536)
            if not data:
                break
            self.request.sendall(data)
            end = (end + data)[-5:]


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


Server(("0.0.0.0", int(sys.argv[1])), Echo).serve_forever()
