//! TLS between two ends in memory, by a provider of ciphers.

use crate::{Outcome, must, text};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
    SupportedProtocolVersion,
};
use std::io::{Read, Write};
use std::sync::{Arc, OnceLock};

struct Ends {
    /// With either version.
    clients: [Arc<ClientConfig>; 2],
    server: Arc<ServerConfig>,
    /// One that does not trust the server.
    stranger: Arc<ClientConfig>,
}

fn ends(provider: CryptoProvider) -> Result<Ends, String> {
    let provider = Arc::new(provider);
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).map_err(text)?;
    let certificate = own.cert.der().clone();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der())?;
    let server = ServerConfig::builder_with_provider(provider.clone());
    let server = server.with_protocol_versions(&[&TLS12, &TLS13]).map_err(text)?;
    let server = server.with_no_client_auth();
    let server = server.with_single_cert(vec![certificate.clone()], key).map_err(text)?;
    let mut roots = RootCertStore::empty();
    roots.add(certificate).map_err(text)?;
    let client = |version: &'static SupportedProtocolVersion, roots: RootCertStore| {
        let client = ClientConfig::builder_with_provider(provider.clone());
        let client = client.with_protocol_versions(&[version]).map_err(text)?;
        Ok::<_, String>(Arc::new(client.with_root_certificates(roots).with_no_client_auth()))
    };
    Ok(Ends {
        clients: [client(&TLS12, roots.clone())?, client(&TLS13, roots)?],
        server: Arc::new(server),
        stranger: client(&TLS13, RootCertStore::empty())?,
    })
}

/// Brings what one end has to say to the other.
fn carry(from: &mut Connection, to: &mut Connection) -> Result<(), String> {
    let mut wire = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut wire).map_err(text)?;
    }
    let mut rest = &wire[..];
    while !rest.is_empty() {
        to.read_tls(&mut rest).map_err(text)?;
        to.process_new_packets().map_err(text)?;
    }
    Ok(())
}

fn connect(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> Result<Pair, String> {
    let name = ServerName::try_from("localhost").map_err(text)?;
    let client = ClientConnection::new(client.clone(), name).map_err(text)?;
    let server = ServerConnection::new(server.clone()).map_err(text)?;
    let mut pair = Pair { client: client.into(), server: server.into() };
    for _ in 0..10 {
        if !pair.client.is_handshaking() && !pair.server.is_handshaking() {
            return Ok(pair);
        }
        carry(&mut pair.client, &mut pair.server)?;
        carry(&mut pair.server, &mut pair.client)?;
    }
    Err("a handshake without end".to_owned())
}

struct Pair {
    client: Connection,
    server: Connection,
}

/// What the client says comes back.
fn echo(pair: &mut Pair, round: usize) -> Result<(), String> {
    let said: Vec<u8> = (0..4_000).map(|n| (n * round % 251) as u8).collect();
    let mut heard = vec![0; said.len()];
    pair.client.writer().write_all(&said).map_err(text)?;
    carry(&mut pair.client, &mut pair.server)?;
    pair.server.reader().read_exact(&mut heard).map_err(text)?;
    pair.server.writer().write_all(&heard).map_err(text)?;
    carry(&mut pair.server, &mut pair.client)?;
    heard.fill(0);
    pair.client.reader().read_exact(&mut heard).map_err(text)?;
    must!(heard == said, "round {round}: other bytes came back");
    Ok(())
}

/// The check.
///
/// # Errors
/// What is wrong.
pub fn handshake(provider: fn() -> CryptoProvider) -> Outcome {
    static ENDS: OnceLock<Result<Ends, String>> = OnceLock::new();
    let ends = ENDS.get_or_init(|| ends(provider())).as_ref().map_err(Clone::clone)?;
    let mut versions = Vec::new();
    for client in &ends.clients {
        let mut pair = connect(client, &ends.server)?;
        for round in 1..5 {
            echo(&mut pair, round)?;
        }
        versions.push(pair.server.protocol_version());
    }
    let stranger = connect(&ends.stranger, &ends.server).err();
    Ok(format!("{versions:?} {}", stranger.ok_or("a stranger trusts the server")?))
}
