//! OpenSSL, built from source.
#![forbid(unsafe_code)]

use curtail_sweep::inside::{self, Check, compute};
use curtail_sweep::{Outcome, must, text};
use openssl::ec::{EcGroup, EcKey};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::sha::sha256;
use openssl::sign::{Signer, Verifier};
use openssl::symm::{Cipher, decrypt_aead, encrypt_aead};
use openssl::x509::X509;
use std::process::ExitCode;
use std::sync::LazyLock;

static KEY: LazyLock<Result<PKey<Private>, ErrorStack>> = LazyLock::new(|| {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
    PKey::from_ec_key(EcKey::generate(&group)?)
});

fn crypto(data: &[u8]) -> Result<bool, ErrorStack> {
    let (cipher, key, iv) = (Cipher::aes_256_gcm(), [7; 32], [9; 12]);
    let mut tag = [0; 16];
    let secret = encrypt_aead(cipher, &key, Some(&iv), b"beside", data, &mut tag)?;
    let back = decrypt_aead(cipher, &key, Some(&iv), b"beside", &secret, &tag)?;
    let key = KEY.as_ref().map_err(Clone::clone)?;
    let signature = Signer::new(MessageDigest::sha256(), key)?.sign_oneshot_to_vec(data)?;
    let is_signed =
        Verifier::new(MessageDigest::sha256(), key)?.verify_oneshot(&signature, data)?;
    Ok(is_signed && back == data && secret != data)
}

fn openssl() -> Outcome {
    let data: Vec<u8> = (0..5_000_u32).map(|n| (n % 251) as u8).collect();
    must!(crypto(&data).map_err(text)?, "a cipher or a signature is wrong");
    // The queue of errors is a thread's own.
    must!(ErrorStack::get().errors().is_empty(), "errors of another thread");
    let error = X509::from_pem(b"nothing").err().ok_or("nothing is a certificate")?;
    error.put();
    compute();
    let own = ErrorStack::get();
    must!(own.errors().len() == error.errors().len(), "{own} instead of {error}");
    Ok(format!("{:?} {}", sha256(&data), error.errors().len()))
}

fn main() -> ExitCode {
    inside::main(&[Check::new("openssl", openssl)])
}
