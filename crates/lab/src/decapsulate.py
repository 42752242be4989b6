"""Opens tunnels where the kernel can't: takes IP in IP, GRE, GUE and Geneve packets
for this host's addresses, checks what must hold of their outer headers, and
gives the inner ones to the kernel through a TUN device.

usage: decapsulate.py DEVICE IPV4 IPV6 GUE-PORT GENEVE-PORT
"""
import fcntl
import selectors
import socket
import struct
import sys

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
SO_RCVBUFFORCE = 33
UDP_NO_CHECK6_RX = 102
IPIP, IPV6, GRE = 4, 41, 47
BUFFER = 8 << 20


def tun(device):
    """The TUN device, which exists already."""
    file = open("/dev/net/tun", "r+b", buffering=0)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH", device.encode(), IFF_TUN | IFF_NO_PI))
    return file


def version(packet):
    return packet[0] >> 4 if packet else 0


def of_ipip(packet, protocol):
    """The packet behind an outer header of this protocol, if it is one."""
    return packet if version(packet) == (4 if protocol == IPIP else 6) else None


def of_gre(packet):
    flags, kind = struct.unpack("!HH", packet[:4]) if len(packet) >= 4 else (1, 0)
    inner = packet[4:]
    wanted = {0x0800: 4, 0x86DD: 6}.get(kind)
    return inner if flags == 0 and version(inner) == wanted else None


def of_gue(packet):
    """Variant 1: the inner packet's version is 4 or 6, and no other header."""
    return packet if version(packet) in (4, 6) else None


def of_geneve(packet):
    """Version 0, no options, no flags, virtual network 0, no reserved bit."""
    if len(packet) < 8 or packet[:2] != b"\0\0" or packet[4:8] != b"\0\0\0\0":
        return None
    kind, inner = struct.unpack("!H", packet[2:4])[0], packet[8:]
    return inner if version(inner) == {0x0800: 4, 0x86DD: 6}.get(kind) else None


def behind_ipv4(packet):
    """What is behind an IPv4 header (the kernel has checked its checksum),
    which must be bare and forbid fragments."""
    bare = packet[0] == 0x45 and struct.unpack("!H", packet[6:8])[0] == 0x4000
    return packet[20:] if bare else b""


def sources(ipv4, ipv6, gue, geneve):
    """Every socket, with what makes inner packets of those it gets."""
    for protocol in (IPIP, IPV6, GRE):
        for family, address in ((socket.AF_INET, ipv4), (socket.AF_INET6, ipv6)):
            raw = socket.socket(family, socket.SOCK_RAW, protocol)
            raw.bind((address, 0))
            strip = behind_ipv4 if family == socket.AF_INET else lambda packet: packet
            if protocol == GRE:
                yield raw, lambda packet, strip=strip: of_gre(strip(packet))
            else:
                yield raw, lambda packet, strip=strip, p=protocol: of_ipip(strip(packet), p)
    for port, inner in ((gue, of_gue), (geneve, of_geneve)):
        for family, address in ((socket.AF_INET, ipv4), (socket.AF_INET6, ipv6)):
            udp = socket.socket(family, socket.SOCK_DGRAM)
            if family == socket.AF_INET6:
                # As with the kernel's fou: RFC 6935 section 5.
                udp.setsockopt(socket.IPPROTO_UDP, UDP_NO_CHECK6_RX, 1)
            udp.bind((address, port))
            yield udp, inner


def main(device, ipv4, ipv6, gue, geneve):
    out = tun(device)
    selector = selectors.DefaultSelector()
    for sock, inner in sources(ipv4, ipv6, int(gue), int(geneve)):
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
        selector.register(sock, selectors.EVENT_READ, inner)
    print("ready", flush=True)
    refused = 0
    while True:
        for key, _ in selector.select():
            for _ in range(64):
                try:
                    packet = key.fileobj.recv(65535)
                except BlockingIOError:
                    break
                inner = key.data(packet)
                if inner:
                    out.write(inner)
                else:
                    refused += 1
                    print("refused", refused, packet[:64].hex(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
