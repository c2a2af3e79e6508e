"""Curator and gateway on two hosts: both show a certificate of the steward's own authority."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dither.curator.run import CuratorSettings, make_server
from dither.errors import ParameterError
from dither.protocol.errors import BusyError
from dither.protocol.tls import TlsFiles, make_client_context, read_host_and_port
from dither.remote.curator import RemoteCurator
from dither.remote.transport import SocketPool, SocketTransport, connect_by_tls
from dither.session import Connection
from tests.datasets.served_clinic import COUNT, ServedClinic, serving

NOW = datetime.datetime.now(datetime.UTC)


def make_certificate(folder: Path, name: str, issuer: tuple | None = None) -> tuple:
    """A certificate for 127.0.0.1, of an issuer or of its own, as PEM files."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer_name, issuer_key = (subject, key) if issuer is None else (issuer[0].subject, issuer[1])
    constraints = x509.BasicConstraints(ca=issuer is None, path_length=None)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    authority_key = x509.SubjectKeyIdentifier.from_public_key(issuer_key.public_key())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - datetime.timedelta(days=1))
        .not_valid_after(NOW + datetime.timedelta(days=1))
        .add_extension(constraints, critical=True)
        .add_extension(address, critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier(authority_key.digest, None, None), critical=False
        )
        .sign(issuer_key, hashes.SHA256())
    )
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / f"{name}.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return certificate, key


def files_of(folder: Path, name: str, authority: str) -> TlsFiles:
    return TlsFiles(folder / f"{name}.pem", folder / f"{name}.key", folder / f"{authority}.pem")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("certificates")
    ours = make_certificate(made, "ours")
    theirs = make_certificate(made, "theirs")
    for name, issuer in (("curator", ours), ("gateway", ours), ("stranger", theirs)):
        make_certificate(made, name, issuer)
    return made


@pytest.fixture(scope="module")
def listening(tmp_path_factory, folder) -> Iterator[tuple[ServedClinic, int]]:
    """The clinic with a curator before it that listens on a port."""
    with serving(tmp_path_factory.mktemp("served"), "1000") as served:
        served.server.stop()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        settings = CuratorSettings(
            (served.file,),
            served.socket,
            served.home,
            tls_address=f"127.0.0.1:{port}",
            tls_files=files_of(folder, "curator", "ours"),
        )
        server = make_server(settings)
        threading.Thread(target=server.serve, daemon=True).start()
        yield served, port
        server.stop()


def connect(listening, context: ssl.SSLContext) -> Connection:
    served, port = listening
    pool = SocketPool(lambda: connect_by_tls("127.0.0.1", port, context))
    return Connection(RemoteCurator(SocketTransport(pool, "clinic", served.make_token())))


def test_a_gateway_with_a_certificate_of_the_authority_is_served(listening, folder):
    con = connect(listening, make_client_context(files_of(folder, "gateway", "ours")))
    first = con.sql(COUNT, epsilon=1)
    assert con.sql(COUNT, epsilon=1).info["release_id"] == first.info["release_id"]
    assert first.info["mode"] == "split"


def make_context_without_certificate(folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=folder / "ours.pem")


def make_old_context(folder: Path) -> ssl.SSLContext:
    context = make_client_context(files_of(folder, "gateway", "ours"))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


@pytest.mark.parametrize(
    "make_context",
    [
        lambda folder: make_client_context(files_of(folder, "stranger", "ours")),
        lambda folder: make_client_context(files_of(folder, "gateway", "theirs")),
        make_context_without_certificate,
        make_old_context,
    ],
    ids=["of another authority", "that trusts another", "without one", "of an old version"],
)
def test_others_are_not(listening, folder, make_context):
    with pytest.raises(BusyError):
        connect(listening, make_context(folder))


def test_who_does_not_speak_tls_is_cut_off(listening):
    _, port = listening
    with socket.create_connection(("127.0.0.1", port)) as stream:
        stream.settimeout(60)
        stream.sendall(b"\0\0\0\x02{}")
        try:
            reply = stream.recv(1000)
        except ConnectionResetError:
            reply = b""
    assert b"error" not in reply and b"v" not in reply[7:]


def test_files_that_do_not_belong_together_are_refused(folder):
    with pytest.raises(ParameterError, match="belong together"):
        make_client_context(TlsFiles(folder / "gateway.pem", folder / "curator.key", folder / "x"))


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:0", "host:65536", "host:²"])
def test_an_address_has_a_host_and_a_port(text):
    with pytest.raises(ParameterError, match="HOST:PORT"):
        read_host_and_port(text)


def test_certificates_are_needed_to_listen_on_a_port(served):
    settings = CuratorSettings((served.file,), served.socket, served.home, tls_address="h:1")
    with pytest.raises(ParameterError, match="certificates"):
        make_server(settings)
