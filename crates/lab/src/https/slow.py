# Sends the beginning of a ClientHello, a byte a second, and says how the connection ends.
import socket
import sys

client = socket.create_connection((sys.argv[1], 443))
client.settimeout(1)
hello = bytes([22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]) + bytes(500)
for byte in hello[:60]:
    try:
        client.send(bytes([byte]))
        if client.recv(100) == b"":
            sys.exit(print("ended"))
    except socket.timeout:
        pass
    except OSError:
        sys.exit(print("reset"))
print("still there")
